"""The rooms of the package and the direction of their imports."""

# Below all rooms: what each of them may use.
FOUNDATIONS = ("foundation",)
# Each room, from the ground up, with what it may import besides the foundation and itself.
ROOMS: dict[str, tuple[str, ...]] = {
    "kernels": (),
    "ops": ("kernels",),
    "sums": ("ops", "kernels"),
    "theory": ("sums", "kernels"),
    "plotting": ("theory",),
    "estimators": ("plotting", "theory", "sums", "kernels"),
    "simulation": ("estimators", "theory", "sums", "kernels"),
    "theorems": ("simulation", "theory", "kernels"),
    "attention": ("ops",),
    "mixing": ("attention",),
    "models": ("mixing",),
    "studies": ("models", "mixing"),
    "checkpoints": ("models", "mixing", "attention"),
    "diagnostics": ("checkpoints", "models"),
    "report": ("diagnostics", "checkpoints"),
    "explore": ("report", "diagnostics", "plotting", "estimators", "theory", "kernels"),
    "cli": (
        "report",
        "diagnostics",
        "checkpoints",
        "studies",
        "models",
        "attention",
        "plotting",
        "theorems",
        "simulation",
        "estimators",
        "theory",
        "sums",
        "ops",
        "kernels",
    ),
}
