"""Which loops: projections of operations."""

from weft.project.plan import Plan, plan, project

__all__ = ["Plan", "plan", "project"]
