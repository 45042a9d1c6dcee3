"""A dataset a night, with Beam's own Airflow operator.

Set two Airflow variables: `recordmill_input`, the folder of pictures, and `recordmill_output`, the
folder in which a dataset a day is to stand. Airflow and recordmill live in virtual environments of
their own; the environment variable RECORDMILL_PYTHON names the interpreter of recordmill's.

A retry continues what the attempt before has finished; running a day again changes nothing.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.sdk import DAG

with DAG(
    dag_id="recordmill_nightly",
    doc_md=__doc__,
    schedule="15 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # two runs of one output exclude each other anyway
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
    tags=["recordmill"],
):
    BeamRunPythonPipelineOperator(
        task_id="photos",
        py_interpreter=os.environ.get("RECORDMILL_PYTHON", "/opt/recordmill/bin/python"),
        # python -m recordmill.pipelines.images
        py_options=["-m"],
        py_file="recordmill.pipelines.images",
        runner="DirectRunner",  # or FlinkRunner, with "flink_master" among the options
        pipeline_options={
            "input": "{{ var.value.recordmill_input }}",
            "output": "{{ var.value.recordmill_output }}/{{ ds }}",
            "size": "224",
            "splits": "train=0.8,validation=0.1,test=0.1",
            "balance": "oversample",
            "seed": "7",
        },
    )
