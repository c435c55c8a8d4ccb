"""The areas of the trainer SDK, for lint.py. Their floors are in rooms.py; docs/trainer-architecture.md shows the same table."""
import re

from rooms import FLOORS

LAYERS = FLOORS["trainer"]
LAYER_OF = {area: number for number, layer in enumerate(LAYERS, 1) for area in layer}

# A file of the SDK and its area; a header that the SDK includes and its area.
FILE = re.compile(r"trainer/(?:src|include/muster)/(?:(\w+)/)?[\w.]+$")
HEADER = re.compile(r"(?:muster/)?(?:(\w+)/)?\w+\.h$")
FOR_PROGRAMS = ("muster/trainer.h", "muster/training_loop.h")  # above all areas
PLUGIN_SEES = "device"
# Each of them is a second or more in every program that includes the header, unless it asked for everything.
COSTLY = re.compile(r"torch/(torch|all|nn|optim|data|jit)\.h$|torch/data/dataloader")


def finding(path, header):
    """What is wrong with `path` including `header` (as it is written there), or None."""
    if path.startswith("trainer/plugins/"):
        if header.startswith("muster/") and not header.startswith(f"muster/{PLUGIN_SEES}/"):
            return f"a plug-in may not include {header}: it sees only muster/{PLUGIN_SEES}/"
        return None
    file = FILE.match(path)
    if not file or path.removeprefix("trainer/include/") in FOR_PROGRAMS:
        return None
    if path.startswith("trainer/include/") and COSTLY.match(header):
        return f"{header} makes every program slow to compile: include what the header uses of it"
    area = file.group(1)
    if area not in LAYER_OF:
        return f"{area or path} is not an area of the SDK: put the file into one, or name the area in rooms.py"
    target = HEADER.match(header)
    if not target or not (header.startswith("muster/") or target.group(1) in LAYER_OF):
        return None  # not the SDK's
    if header in FOR_PROGRAMS:
        return f"{header} is for programs: include the headers of the areas"
    if target.group(1) not in LAYER_OF:
        return f"{header} is in no area: headers are muster/AREA/NAME.h"
    below, own = LAYER_OF[target.group(1)], LAYER_OF[area]
    if target.group(1) == area or below < own:
        return None
    return (f"{area} (layer {own}) may not include {header} (layer {below}): an area includes only lower layers; "
            "move the code to where it belongs")
