"""Ships judges: to MLflow's registry, or to a folder."""
