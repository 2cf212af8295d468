"""From judged data to weights: the embedded user's reader (`embedded`, `analyses`), and students of a judge (`student`)."""
