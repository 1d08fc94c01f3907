"""From a task to a running job: `candidates`, `provision`, `files`, `jobs`; and back: `lifecycle`."""
