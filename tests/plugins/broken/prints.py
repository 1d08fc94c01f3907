"""outcome:
kind = "cloud"
name = "prints"
state = "ready"
problem = ""
remedy = ""
"""

import sys

from sky.api import CloudInfo, CredentialStatus, Feasibility, Rejection, hookimpl

print("PRINTED at import")


def no(request):
    print("PRINTED in a hook")
    sys.stdout.flush()
    return Feasibility(
        rejections=(Rejection(cloud="prints", subject="prints", rule="none", reason="has none"),)
    )


class Plugin:
    api = (1, 0)

    @hookimpl
    def sky_cloud_info(self):
        print("PRINTED in a hook")
        return CloudInfo(title="Prints")

    @hookimpl
    def sky_check_credentials(self, ctx):
        print("PRINTED in a hook")
        return CredentialStatus(ok=True)

    @hookimpl
    def sky_feasible(self, ctx, request):
        return no(request)

    @hookimpl
    def sky_run_instances(self, ctx, spec):
        raise NotImplementedError

    @hookimpl
    def sky_wait_instances(self, ctx, allocation):
        raise NotImplementedError

    @hookimpl
    def sky_query_instances(self, ctx, allocation):
        raise KeyError("a defect of the plugin")

    @hookimpl
    def sky_cluster_hosts(self, ctx, allocation):
        raise NotImplementedError

    @hookimpl
    def sky_list_clusters(self, ctx, tags):
        raise KeyError("a defect of the plugin")

    @hookimpl
    def sky_terminate_instances(self, ctx, allocation):
        raise NotImplementedError
