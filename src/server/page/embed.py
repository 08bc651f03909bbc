#!/usr/bin/env python3
"""embed.py OUT.cpp FILE...: writes page_assets() (page.h) with the bytes of every FILE."""
import hashlib
import pathlib
import sys

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def literal(data):
    """Lines of a C++ string literal. Octal escapes have a fixed length, so no byte can join the one before."""
    def escape(byte):
        return chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
    return "\n".join('    "' + "".join(map(escape, line)) + '"' for line in data.splitlines(keepends=True))


def main():
    out, files = sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]
    assets = []
    for file in files:
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        data = file.read_bytes()
        assets.append((path, CONTENT_TYPES[file.suffix], data, hashlib.sha256(data).hexdigest()[:16]))
    rows = "".join(f'  {{"{path}", "{kind}",\n    std::string_view(\n{literal(data)}, {len(data)}),\n    "\\"{tag}\\""}},\n'
                   for path, kind, data, tag in sorted(assets))
    pathlib.Path(out).write_text(f"""// Written by embed.py.
#include "server/page/page.h"

namespace rocmforge::server {{
namespace {{
constexpr PageAsset kAssets[] = {{
{rows}}};
}}  // namespace

std::span<const PageAsset> page_assets() {{ return kAssets; }}

}}  // namespace rocmforge::server
""", encoding="ascii")


if __name__ == "__main__":
    main()
