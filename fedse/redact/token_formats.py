"""How the tokens of well-known services look, as the services document it: one row per format.

A row says what a token begins with, of which characters the rest is, and how many there are at
least. Lengths with a full stop between them are parts with a full stop between them. A service that
gives its tokens no beginning of their own has no row: the detector of random words finds them.
"""

from collections.abc import Mapping
from typing import NamedTuple

ALPHABETS: Mapping[str, str] = {
    "digits": "0-9",
    "hex": "0-9a-fA-F",
    "letters": "A-Za-z",
    "capitals": "A-Z0-9",
    "base62": "A-Za-z0-9",
    "word": "A-Za-z0-9_",
    "url": "A-Za-z0-9_-",
    "base64": "A-Za-z0-9+/",
    "path": "A-Za-z0-9_/-",
}


class TokenFormat(NamedTuple):
    """What one service calls a token."""

    service: str
    begins: str
    """One of these words, separated by spaces."""
    alphabet: str
    lengths: str


TOKEN_FORMATS: tuple[TokenFormat, ...] = tuple(
    TokenFormat(*row)
    for row in (
        # Clouds and hosting.
        ("Alibaba Cloud", "LTAI", "base62", "16"),
        ("AWS", "AKIA ASIA ABIA ACCA", "capitals", "16"),
        ("Cloudflare origin CA", "v1.0-", "url", "100"),
        ("Databricks", "dapi", "hex", "32"),
        ("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", "hex", "64"),
        ("Fly.io", "fo1_ fm1_ fm2_", "base64", "40"),
        ("Google API", "AIza", "url", "35"),
        ("Google OAuth client", "GOCSPX-", "url", "28"),
        ("Google OAuth access", "ya29.", "url", "30"),
        ("Google OAuth refresh", "1//0", "url", "30"),
        ("Heroku", "HRKU-", "url", "36"),
        ("Netlify", "nfp_ nfc_ nfo_ nfu_", "base62", "36"),
        ("PlanetScale", "pscale_tkn_ pscale_pw_ pscale_oauth_", "url", "32"),
        ("Render", "rnd_", "base62", "28"),
        ("Supabase", "sbp_ sb_secret_", "url", "30"),
        ("Tailscale", "tskey-auth- tskey-api- tskey-client- tskey-scim-", "url", "20"),
        ("Tencent Cloud", "AKID", "base62", "32"),
        # Code, packages and builds.
        ("Artifactory", "AKCp", "base62", "60"),
        ("Artifactory reference", "cmVmdGtu", "base62", "50"),
        ("Atlassian", "ATATT3 ATCTT3 ATSTT3", "url", "60"),
        ("Bitbucket", "ATBB", "base62", "28"),
        ("Buildkite", "bkua_ bkct_", "hex", "40"),
        ("CircleCI", "CCIPAT_ CCIPRJ_", "word", "40"),
        ("crates.io", "cio", "base62", "32"),
        ("Docker Hub", "dckr_pat_ dckr_oat_", "url", "27"),
        ("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", "base62", "36"),
        ("GitHub fine-grained", "github_pat_", "word", "50"),
        ("GitLab", "glpat- gldt- glrt- glft- glsoat- glptt- glcbt- glimt-", "url", "20"),
        ("npm", "npm_", "base62", "36"),
        ("NuGet", "oy2", "base62", "43"),
        ("Postman", "PMAK-", "url", "50"),
        ("PyPI", "pypi-AgE", "url", "50"),
        ("RubyGems", "rubygems_", "hex", "48"),
        ("SonarQube", "squ_ sqp_ sqa_", "hex", "40"),
        # Secrets and infrastructure.
        ("age", "AGE-SECRET-KEY-1", "capitals", "58"),
        ("Doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim.", "base62", "40"),
        ("HashiCorp Vault", "hvs. hvb. hvr.", "url", "24"),
        ("HashiCorp Terraform", "atlasv1.", "url", "60"),
        ("1Password secret key", "A3-", "url", "31"),
        ("1Password service account", "ops_eyJ", "url", "100"),
        ("Pulumi", "pul-", "hex", "40"),
        ("JSON web token", "eyJ", "url", "8.8.0"),
        # Payments and shops.
        ("EasyPost", "EZAK EZTK", "base62", "54"),
        ("Flutterwave", "FLWSECK-", "url", "32"),
        ("Shippo", "shippo_live_ shippo_test_", "hex", "40"),
        ("Shopify", "shpat_ shpca_ shppa_ shpss_", "hex", "32"),
        ("Square", "EAAA", "url", "60"),
        ("Square OAuth", "sq0atp- sq0csp- sq0idp-", "url", "22"),
        ("Stripe", "sk_live_ sk_test_ rk_live_ rk_test_", "base62", "16"),
        ("Stripe webhook", "whsec_", "base64", "32"),
        # Messages and mail.
        ("Brevo", "xkeysib- xsmtpsib-", "url", "64"),
        ("Discord bot", "M N O", "url", "23.6.27"),
        ("Discord webhook", "https://discord.com/api/ discord.com/api/", "path", "60"),
        ("Mailgun", "key-", "hex", "32"),
        ("MailerSend", "mlsn.", "hex", "64"),
        ("Resend", "re_", "word", "30"),
        ("SendGrid", "SG.", "url", "16.32"),
        ("Slack", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxc- xoxd- xoxe- xapp-", "url", "20"),
        ("Slack webhook", "https://hooks.slack.com/ hooks.slack.com/", "path", "40"),
        ("Telegram bot", ":A", "url", "34"),
        ("Twilio", "SK AC", "hex", "32"),
        # Models.
        ("Anthropic", "sk-ant-", "url", "40"),
        ("Groq", "gsk_", "base62", "40"),
        ("Hugging Face", "hf_ api_org_", "base62", "30"),
        ("NVIDIA", "nvapi-", "url", "40"),
        ("OpenAI", "sk-", "url", "32"),
        ("Perplexity", "pplx-", "base62", "40"),
        ("Replicate", "r8_", "base62", "37"),
        ("xAI", "xai-", "base62", "60"),
        # Documents, design and monitoring.
        ("Airtable", "pat", "base62", "14.64"),
        ("Dropbox", "sl.", "url", "60"),
        ("Dynatrace", "dt0c01. dt0s01.", "capitals", "24.64"),
        ("Figma", "figd_", "url", "40"),
        ("Grafana", "glsa_ glc_", "word", "32"),
        ("Linear", "lin_api_ lin_oauth_", "base62", "32"),
        ("New Relic", "NRAK- NRJS- NRII-", "url", "19"),
        ("Notion", "secret_ ntn_", "base62", "40"),
        ("Sentry", "sntrys_ sntryu_", "word", "60"),
    )
)
