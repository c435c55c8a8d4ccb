"""Man pages, made of what the programs themselves print: there is no second text to keep in step."""
import time

from release import run


def page(name, section, about, release):
    """The source of a man page."""
    path = release.program(name)
    day = time.strftime("%Y-%m-%d", time.gmtime(release.epoch))
    parts = [f'.TH {name.upper()} {section} {day} "Muster {release.version}" Muster\n.SH NAME\n{name} \\- {about}\n']
    if name == "jobctl":
        parts += chapters(run(name, "help", "--markdown", executable=path))
    else:
        parts += [".SH DESCRIPTION\n", verbatim(run(name, "--help", executable=path, env={"COLUMNS": "80"}))]
    return "".join(parts)


def chapters(markdown):
    """The parts of jobctl's reference: a heading and a block of text each."""
    title, inside = "DESCRIPTION", False
    block = []
    for line in markdown.splitlines():
        if line.startswith("```"):
            if inside:
                yield f'.SH "{title}"\n' + verbatim("\n".join(block))
            inside, block = not inside, []
        elif inside:
            block.append(line)
        elif line.startswith("## "):
            title = line[3:].replace('"', "").upper()


def verbatim(text):
    """Text that a man page shows as it is."""
    lines = [line.replace("\\", "\\e").replace("-", "\\-") for line in text.strip("\n").splitlines()]
    return ".nf\n" + "".join(("\\&" if line[:1] in (".", "'") else "") + line + "\n" for line in lines) + ".fi\n"
