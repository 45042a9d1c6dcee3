"""A dataset a night, with Beam's own Airflow operator.

Set two Airflow variables: `recordmill_input`, the folder of pictures, and `recordmill_output`, the
folder in which a dataset a day is to stand. Airflow and recordmill live in virtual environments of
their own; the environment variable RECORDMILL_PYTHON names the interpreter of recordmill's.

A retry continues what the attempt before has finished; running a day again changes nothing. Images
that have not changed are copied from the newest dataset that can be used.

Each night updates the asset `recordmill_photos`; `extra` of its event has the folder as `dataset`.
A DAG with `schedule=[Asset("recordmill_photos")]` starts when a dataset is published.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator
from airflow.sdk import DAG, Asset

PHOTOS = Asset("recordmill_photos")


def name_dataset(context: Any, result: Any = None) -> None:
    """Puts the folder of the dataset into the event of the asset."""
    folder = context["task"].pipeline_options["output"]  # with the templates filled in
    context["outlet_events"][PHOTOS].extra = {"dataset": folder}


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
            "reuse": "{{ var.value.recordmill_output }}/*",
            "size": "224",
            "splits": "train=0.8,validation=0.1,test=0.1",
            "balance": "oversample",
            "seed": "7",
        },
        outlets=[PHOTOS],
        post_execute=name_dataset,
    )
