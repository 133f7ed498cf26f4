"""The environments babyai, textcraft and webshop for Fed-SE."""
