"""heartloop: a dialogue model, a simulated person, and what that person felt after every turn."""
