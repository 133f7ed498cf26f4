"""Gymnasium, MCP, OpenEnv and AgentGym environments for Fed-SE."""
