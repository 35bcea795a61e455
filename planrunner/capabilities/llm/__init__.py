"""Language models by the name that the project gives them: complete, judge, vote, embed."""
