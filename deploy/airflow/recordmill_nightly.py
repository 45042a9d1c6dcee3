"""One dataset per night, with Beam's own Airflow operator.

Set two Airflow variables: `recordmill_config`, the path of a job file, and `recordmill_output`, the
folder for the datasets. A job file, printed by `recordmill COMMAND ... --print-config`, names the
command, such as images or text, the input, and all other options. Airflow and recordmill need
separate virtual environments; the environment variable RECORDMILL_PYTHON names the Python of
recordmill's.

A retry continues the interrupted attempt; running a day again changes nothing. Files that have not
changed are not encoded again, but copied from the newest usable dataset.

Each night updates the asset `recordmill_nightly`; the `extra` of its event holds the folder of the
dataset as `dataset`. A DAG with `schedule=[Asset("recordmill_nightly")]` starts after each update.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.sdk import DAG, Asset

DATASET = Asset("recordmill_nightly")


def name_dataset(context: Any, result: Any = None) -> None:
    """Put the folder of the dataset into the event of the asset."""
    folder = context["task"].pipeline_options["output"]  # with the templates filled in
    context["outlet_events"][DATASET].extra = {"dataset": folder}


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
        task_id="dataset",
        py_interpreter=os.environ.get("RECORDMILL_PYTHON", "/opt/recordmill/bin/python"),
        # python -m recordmill --config=...
        py_options=["-m"],
        py_file="recordmill",
        runner="DirectRunner",  # or FlinkRunner, with "flink_master" among the options
        pipeline_options={
            "config": "{{ var.value.recordmill_config }}",
            "output": "{{ var.value.recordmill_output }}/{{ ds }}",
            "reuse": "{{ var.value.recordmill_output }}/*",
        },
        outlets=[DATASET],
        post_execute=name_dataset,
    )
