# One image for every Airflow service of docker-compose.yaml.
FROM python:3.12-slim-bookworm

# curl is for the health checks. Nothing is compiled: every dependency is a wheel.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 50000 --gid 0 --create-home --home-dir /home/airflow airflow

WORKDIR /opt/kubetally
COPY requirements.txt requirements-celery.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.txt \
    && pip install --no-cache-dir --require-hashes --requirement requirements-celery.txt

COPY --chown=airflow:0 dags ./dags
COPY --chown=airflow:0 plugins ./plugins
COPY --chown=airflow:0 include ./include

ENV PYTHONPATH=/opt/kubetally/include \
    PYTHONUNBUFFERED=1 \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/kubetally/dags \
    AIRFLOW__CORE__PLUGINS_FOLDER=/opt/kubetally/plugins \
    AIRFLOW__CORE__LOAD_EXAMPLES=False \
    GX_ANALYTICS_ENABLED=False

# Volumes mounted here start with these owners.
RUN mkdir -p /opt/airflow/logs /opt/airflow/reports /opt/airflow/auth \
    && chown -R airflow:0 /opt/airflow
USER airflow
ENTRYPOINT []
CMD ["airflow", "version"]
