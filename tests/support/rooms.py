"""The rooms of the package and the direction of their imports."""

# Each room, from the ground up, with what it may import besides the foundations and itself.
FOUNDATIONS = ("arrays", "validation", "version", "lazy", "console", "study")
ROOMS: dict[str, tuple[str, ...]] = {
    "sinc": (),
    "kernels": ("sinc",),
    "phi_kernel": ("kernels", "sinc"),
    "densities": ("kernels",),
    "ops": ("kernels",),
    "sums": ("ops", "kernels"),
    "exact_error": ("sums", "densities", "kernels"),
    "estimators": ("exact_error", "sums", "densities", "kernels"),
    "simulation": ("estimators", "exact_error", "sums", "densities", "kernels"),
    "theory": ("simulation", "exact_error", "densities", "kernels"),
    "attention": ("ops",),
    "mixing": ("attention",),
    "models": ("mixing",),
    "train": ("models", "mixing"),
    "checkpoints": ("models", "mixing", "attention"),
    "diagnostics": ("checkpoints", "models"),
    "report": ("diagnostics", "checkpoints"),
    "bench": ("attention", "sums", "kernels"),
    "cuda": ("estimators", "attention", "ops"),
    "plotting": ("theory",),
    "cli": (
        "bench",
        "cuda",
        "ops",
        "report",
        "train",
        "theory",
        "simulation",
        "plotting",
        "diagnostics",
        "checkpoints",
    ),
}
