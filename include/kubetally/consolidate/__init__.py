"""Consolidation: intervals by hours → core facts, in a stage that readers do not see yet."""
