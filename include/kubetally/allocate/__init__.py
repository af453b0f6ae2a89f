"""Allocation: cost models and owners as dated data, and the SQL that turns hours into cost lines."""
