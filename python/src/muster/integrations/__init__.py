"""Callbacks for training libraries. Each module needs its library and is imported by name:

- `muster.integrations.transformers`: MusterCallback for the Hugging Face Trainer
- `muster.integrations.lightning`: MusterCallback for Lightning
- `muster.integrations.accelerate`: MusterTracker for Accelerate
"""
