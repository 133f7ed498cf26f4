"""A demonstration: shops in service, simulated customers, and nights of federated learning."""
