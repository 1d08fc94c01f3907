"""outcome:
kind = "observer"
name = "policy"
state = "ready"
problem = ""
remedy = ""
"""

import dataclasses
import os

from sky.api import UsageError, hookimpl


class Plugin:
    """Does to tasks what the test says: changes, refuses, or falls over."""

    api = (1, 0)

    @hookimpl
    def sky_task_policy(self, ctx, task):
        what = os.environ.get("SKY_TEST_POLICY")
        if what == "change":
            return dataclasses.replace(task, envs={**task.envs, "BY_POLICY": "added"})
        if what == "refuse":
            raise UsageError("tasks without a cost centre are refused", remedy="add the label cost-centre")
        if what == "raise":
            raise ZeroDivisionError("the policy fell over")
        return None
