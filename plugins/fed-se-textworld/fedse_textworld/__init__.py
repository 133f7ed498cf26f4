"""The games of TextWorldExpress as environments of Fed-SE."""
