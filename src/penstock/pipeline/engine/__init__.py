"""The long-lived process of `penstock up` that hosts many pipelines, and how commands talk to it."""
