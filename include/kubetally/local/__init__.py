"""Kubetally on one machine: the embedded Postgres, the demo and Airflow, started and stopped."""
