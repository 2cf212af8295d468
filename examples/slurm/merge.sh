#!/bin/bash
# Merges the shards and writes the report: sbatch --dependency=afterany:ARRAY_JOB merge.sh
#SBATCH --job-name=heartloop-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=2:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
rm -rf "$RUNS/merged"  # of an earlier merge, also one that was interrupted; it is made from the shards again
heartloop merge "$RUNS"/shard-*/ --out "$RUNS/merged"
heartloop report "$RUNS/merged"
