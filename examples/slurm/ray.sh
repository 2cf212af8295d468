#!/bin/bash
# Plays one run on a Ray cluster of its own over the nodes of the job: sbatch --nodes=4 ray.sh. Needs the extra ray.
#SBATCH --job-name=heartloop-ray
#SBATCH --exclusive  # at the end, ray symmetric-run stops every Ray of this account on the nodes
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
export RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')  # nobody else on these nodes
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes%%$'\n'*}
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_JOB_NUM_NODES" \
    --num-cpus "$SLURM_CPUS_PER_TASK" -- \
    heartloop eval --config "$CONFIG" --ray "$head:6379" --out "$RUNS/on-ray" --yes
