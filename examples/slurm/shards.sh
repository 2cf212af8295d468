#!/bin/bash
# Plays one shard per task: sbatch --array=1-8 shards.sh. The array starts at 1; submitted again, it finishes what is missing.
#SBATCH --job-name=heartloop-shards
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
exec heartloop eval --config "$CONFIG" --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" \
    --out "$RUNS/shard-$SLURM_ARRAY_TASK_ID" --yes --no-report
