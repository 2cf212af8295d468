"""From judged data to weights: the embedded user's reader (`embedded`), and students of anybody's judge (`student`)."""
