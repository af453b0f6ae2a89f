"""Sources: functions from (cluster, window) to interval rows and a statement of what they cover."""
