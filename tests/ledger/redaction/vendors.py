"""Keys in the formats of many vendors: what is fixed about each, and what is drawn."""

from __future__ import annotations

import random
import re
import string
import uuid

__all__ = ["VENDORS", "fill"]

_ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "L": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "H": "0123456789abcdef",
    "W": string.ascii_letters + string.digits + "-_",
    "B": string.ascii_letters + string.digits + "+/",
    "D": string.digits,
    "S": string.ascii_uppercase + "234567",
}
_SLOT = re.compile(r"\{([ALUHWBDS])(\d+)\}|\{uuid\}")

# `{A36}` is 36 letters and digits, `{H}` hexadecimal, `{W}` with dashes, `{B}` base64.
VENDORS = {
    "1password": "ops_eyJ{W200}",
    "age": "AGE-SECRET-KEY-1{U58}",
    "airtable": "pat{A14}.{H64}",
    "alibaba": "LTAI{A20}",
    "anthropic": "sk-ant-api03-{W93}AA",
    "artifactory": "AKCp{A69}",
    "asana": "1/{D16}:{H32}",
    "atlassian": "ATATT3xFfGF0{W180}",
    "aws": "AKIA{S16}",
    "axiom": "xaat-{uuid}",
    "azure_client": "{A3}8Q~{W34}",
    "bitbucket": "ATBB{A32}",
    "brevo": "xkeysib-{H64}-{A16}",
    "buildkite": "bkua_{H40}",
    "circleci": "CCIPAT_{A22}_{H40}",
    "clojars": "CLOJARS_{H60}",
    "cloudflare_origin": "v1.0-{H24}-{H146}",
    "contentful": "CFPAT-{W43}",
    "crates": "cio{A32}",
    "databricks": "dapi{H32}",
    "deno": "ddp_{A36}",
    "digitalocean": "dop_v1_{H64}",
    "discord": "MT{A22}.{W6}.{W38}",
    "docker": "dckr_pat_{W27}",
    "doppler": "dp.pt.{A43}",
    "dropbox": "sl.{W140}",
    "duffel": "duffel_live_{W43}",
    "dynatrace": "dt0c01.{U24}.{U64}",
    "easypost": "EZAK{A54}",
    "facebook": "EAAC{A150}",
    "figma": "figd_{W40}",
    "flutterwave": "FLWSECK_TEST-{H32}-X",
    "fly": "fo1_{W43}",
    "frameio": "fio-u-{W64}",
    "github": "ghp_{A36}",
    "github_app": "ghs_{A36}",
    "github_fine": "github_pat_{A22}_{A59}",
    "gitlab": "glpat-{W20}",
    "gitlab_deploy": "gldt-{W20}",
    "gitlab_runner": "GR1348941{W20}",
    "google": "AIza{W35}",
    "google_oauth": "ya29.{W120}",
    "google_secret": "GOCSPX-{W28}",
    "grafana": "glsa_{A32}_{H8}",
    "grafana_cloud": "glc_eyJ{A100}",
    "groq": "gsk_{A52}",
    "harness": "pat.{A22}.{H24}.{A20}",
    "heroku": "HRKU-{uuid}",
    "honeycomb": "hcaik_{L58}",
    "hubspot": "pat-na1-{uuid}",
    "huggingface": "hf_{A34}",
    "infisical": "st.{H24}.{H32}.{H32}",
    "infracost": "ico-{A32}",
    "jina": "jina_{H32}{A32}",
    "k3s": "K10{H64}::server:{H32}",
    "langsmith": "lsv2_pt_{H32}_{H10}",
    "launchdarkly": "sdk-{uuid}",
    "linear": "lin_api_{A40}",
    "mailchimp": "{H32}-us12",
    "mailgun": "key-{H32}",
    "mapbox": "sk.eyJ{A60}.{W22}",
    "mongodb_atlas": "mdb_sa_sk_{W40}",
    "neon": "napi_{L64}",
    "netlify": "nfp_{A36}",
    "newrelic": "NRAK-{U27}",
    "newrelic_license": "{H36}NRAL",
    "notion": "ntn_{A46}",
    "notion_old": "secret_{A43}",
    "npm": "npm_{A36}",
    "nvidia": "nvapi-{W64}",
    "okta": "00{W40}",
    "openai": "sk-{A20}T3BlbkFJ{A20}",
    "openai_project": "sk-proj-{W120}",
    "openrouter": "sk-or-v1-{H64}",
    "openshift": "sha256~{W43}",
    "perplexity": "pplx-{A48}",
    "pinecone": "pcsk_{A6}_{A63}",
    "plaid": "access-sandbox-{uuid}",
    "planetscale": "pscale_tkn_{W43}",
    "planetscale_password": "pscale_pw_{W43}",
    "posthog": "phx_{A43}",
    "postman": "PMAK-{H24}-{H34}",
    "prefect": "pnu_{A36}",
    "pulumi": "pul-{H40}",
    "pypi": "pypi-AgEIcHlwaS5vcmc{W120}",
    "readme": "rdme_{L70}",
    "render": "rnd_{A28}",
    "replicate": "r8_{A37}",
    "resend": "re_{A8}_{A24}",
    "rubygems": "rubygems_{H48}",
    "scalingo": "tk-us-{W48}",
    "sendgrid": "SG.{W22}.{W43}",
    "sentry": "sntrys_eyJ{A120}",
    "shippo": "shippo_live_{H40}",
    "shopify": "shpat_{H32}",
    "slack": "xoxb-{D12}-{D13}-{A24}",
    "slack_app": "xapp-1-A{U10}-{D13}-{H64}",
    "sourcegraph": "sgp_{H16}_{H40}",
    "square": "sq0atp-{W22}",
    "square_access": "EAAA{W60}",
    "stripe": "sk_live_{A24}",
    "stripe_restricted": "rk_live_{A99}",
    "stripe_webhook": "whsec_{A32}",
    "supabase": "sbp_{H40}",
    "supabase_secret": "sb_secret_{W31}",
    "swarm": "SWMTKN-1-{L50}-{L25}",
    "tailscale": "tskey-auth-{A12}CNTRL-{A32}",
    "tavily": "tvly-{A32}",
    "telegram": "{D10}:AA{W33}",
    "terraform": "{A14}.atlasv1.{W67}",
    "twilio": "SK{H32}",
    "typeform": "tfp_{W44}_{W14}",
    "vault": "hvs.{W90}",
    "vault_batch": "hvb.{W150}",
    "vault_old": "s.{A24}",
    "wakatime": "waka_{uuid}",
    "xai": "xai-{A80}",
    "yandex": "AQVN{W36}",
}


def fill(chance: random.Random, form: str) -> str:
    """One key of a form, never with a dash or a point where sentences have one."""

    def draw(slot: re.Match[str]) -> str:
        if slot[1] is None:
            return str(uuid.UUID(bytes=chance.randbytes(16), version=4))
        alphabet = _ALPHABETS[slot[1]]
        return "".join(chance.choices(alphabet, k=int(slot[2]) - 1)) + chance.choice(
            alphabet.strip("-_+/")
        )

    return _SLOT.sub(draw, form)
