"""The gate of the embedded user: attacks on the learned reader, by somebody who did not fit it (`python -m benchmarks.gate`)."""
