#!/bin/sh
# Starts everything on this machine, sends each order twice, and shows what happened.
set -eu
pids=
start() { "$@" > "logs/$1.log" 2>&1 & pids="$pids $!"; }
trap 'kill $pids; wait' EXIT
mkdir -p logs data
if [ -z "${REDIS_URL:-}" ]; then
  export REDIS_URL=redis://127.0.0.1:6379/0
  start redis-server --port 6379 --dir data --appendonly yes
fi
export DOUBTLESS_PROVIDER="$REDIS_URL" DOUBTLESS_HISTORY="$REDIS_URL"
start uvicorn web:app --port 8000
start doubtless run booking
start celery -A tasks worker --pool solo
python send.py
python report.py 2> logs/spark.log
