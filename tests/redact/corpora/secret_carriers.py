"""Texts with a place for a secret, as agents see and write them, in six sets.

The rules of fedse/redact were written and changed with the texts of `first`, `second`, `third` and
`tuning` at hand. `fourth` was held out until texts of five of its groups (bearer, session, code,
card, iban) were seen while the rules were changed. `held out` was written after the rules and
before they were measured on it.
"""

from collections.abc import Mapping, Sequence

from tests.redact.corpora.held_out_carriers import HELD_OUT
from tests.redact.corpora.tuning_carriers import TUNING, Group

FIRST: Mapping[Group, Sequence[str]] = {
    "token": (
        "The deploy script uses {} to log in.",
        '{"status": "ok", "token": "{}", "expires": 3600}',
        "export SERVICE_TOKEN={}\npython deploy.py",
        "Thought: the ticket contains a credential.\nAction: type[{}]",
        "2026-03-02 11:04:17 WARN client retry with {} (attempt 2 of 5)",
        "Use {}, then press Enter.",
    ),
    "key": (
        'api_key = "{}"',
        '{"user": "svc-report", "secret_key": "{}"}',
        "AWS_SECRET_ACCESS_KEY={}",
        "DefaultEndpointsProtocol=https;AccountName=reports;AccountKey={};EndpointSuffix=core",
        "access key: {}",
        "The API key is {}.",
    ),
    "block": (
        "The file contains:\n{}\nEnd of file.",
        "Action: write[id_rsa]\n{}",
    ),
    "url": (
        "Connecting to postgresql://reporter:{}@db.internal:5432/sales",
        "DATABASE_URL=mysql://root:{}@10.0.4.7/app",
        "redis://:{}@cache:6379/0 refused the connection",
    ),
    "password": (
        "username: jdoe\npassword: {}\n",
        '{"login": "jdoe", "password": "{}"}',
        "DB_PASSWORD={}",
        "<input name='password'>Password: {}",
        "mysql -u root --password={} sales",
        "Action: fill[password={}]",
        "Your password is {}.",
    ),
    "basic": (
        "Authorization: Basic {}",
        'headers = {"Authorization": "Basic {}"}',
    ),
    "bearer": (
        "Authorization: Bearer {}\nAccept: */*",
        "curl -H 'Authorization: Bearer {}' https://api.internal/v1/orders",
    ),
    "session": (
        "Set-Cookie: session_id={}; Path=/; HttpOnly",
        '{"session_id": "{}", "user": 12}',
    ),
    "code": (
        "Your one-time code is {}. It expires in ten minutes.",
        "PIN: {}",
        "verification code: {}",
        "Action: enter[otp {}]",
    ),
    "card": (
        "Card number: {}\nExpires 04/29",
        "The customer paid with {}, please refund.",
        '{"card": "{}", "amount": 12.5}',
        "Action: fill[card {}]",
    ),
    "iban": (
        "Transfer 120.00 EUR to {} until Friday.",
        "IBAN: {}",
        '{"iban": "{}", "holder": "M. Jones"}',
        "Please refund to account {}. Thank you.",
    ),
}

SECOND: Mapping[Group, Sequence[str]] = {
    "token": (
        "| credential | {} |",
        "Observation: page shows <code>{}</code> below the heading",
        "git clone failed for key ({})",
        "settings:\n  - name: CI\n    value: {}\n    scope: all",
        "He wrote in the chat: {} works, do not share it!",
        "Traceback (most recent call last):\n  ValueError: rejected '{}'",
    ),
    "key": (
        "config.access_key => '{}'",
        "set MASTER_KEY {}",
        "client_secret: {}  # rotate in May",
        "<accessKey>{}</accessKey>",
        "the storage key was {}, says the note",
    ),
    "block": (
        "ssh key found in attachment 2: {} (end)",
        "data: |\n{}\ntype: Opaque",
    ),
    "url": (
        "Clone https://build-bot:{}@git.internal/tools.git first",
        "broker = amqp://worker:{}@mq:5672//",
        "Action: open[ftp://archive:{}@files.internal/2026]",
    ),
    "password": (
        "Login as admin with password {} and open the report",
        "The password for the staging server is {}",
        "passwd={}&remember=1",
        "  password : '{}'",
        "New password for user anna set to {}",
        "sshpass -p x; PGPASSWORD={} psql",
    ),
    "basic": (
        "authorization = 'Basic {}'",
        "> authorization: Basic {}\n> accept: application/json",
    ),
    "bearer": (
        "The request was sent with bearer {}",
        '"authorization": "Bearer {}",',
    ),
    "session": (
        "document.cookie = 'sessionid={}'",
        "resumed with session key {} after the restart",
    ),
    "code": (
        "Enter the security code {} on the next page",
        "Your TAN was {}",
        "Access code: {}, second floor",
    ),
    "card": (
        "charge {} for 3 nights",
        "cc={};cvc=***",
        "Observation: saved cards\n1) {}\n2) none",
    ),
    "iban": (
        "payee {} (verified)",
        "iban={}&amount=40",
        "Observation: row 3: Miller; {}; 14 days",
    ),
}

THIRD: Mapping[Group, Sequence[str]] = {
    "token": (
        "Observation: the wiki page 'Onboarding' lists {} under Tools",
        "- {}\n- second entry\n",
        "kubectl create secret generic ci --from-literal=t={}",
        "I copied {} into the form and it was accepted",
        "[tool result] stdout: {}\nstderr:",
        'conn.headers.update({"X-Auth": "{}"})',
        "https://api.internal/v2/report?key={}&format=csv",
    ),
    "key": (
        "apiKey: '{}',",
        "--api-key {} --region eu",
        "Observation: Settings > Integrations. Secret key: {}",
        "os.environ['CLIENT_SECRET'] = '{}'",
        "our shared secret is {}",
    ),
    "block": (
        "cat deploy_key\n{}\n$ exit",
        'PEM = """{}"""',
    ),
    "url": (
        "mongodb+srv://report:{}@cluster0.internal/test?retryWrites=true",
        "curl -s 'https://anna:{}@files.internal/export.csv'",
        "Observation: remote origin https://ci:{}@git.internal/a/b (fetch)",
    ),
    "password": (
        "Observation: sticky note: wifi password = {}",
        "Thought: I will log in with the password {}.",
        "<td>Password</td><td>{}</td>",
        "$env:ADMIN_PASSWORD = '{}'",
        "the root password was changed to {} on Monday",
        "user=anna password={} host=db",
        "Passwort: {}",
    ),
    "basic": (
        "curl -H 'authorization: Basic {}' https://api.internal/me",
        "Proxy-Authorization: Basic {}",
    ),
    "bearer": (
        "fetch(url, {headers: {Authorization: `Bearer {}`}})",
        "Observation: request header Authorization=Bearer {}",
    ),
    "session": (
        "Cookie: lang=en; sessionid={}; theme=dark",
        "session-id: {}",
    ),
    "code": (
        "Observation: SMS from bank: your verification code: {}",
        "Thought: the PIN is {}, so I enter it.",
        "otp={}",
        "Use access code {} at the gate",
    ),
    "card": (
        "Observation: payment method {} (default)",
        "card_number={}&exp=0429",
        "<td>{}</td><td>04/29</td>",
        "Thought: I should use card {} for this order.",
    ),
    "iban": (
        "Observation: bank details: {}, BIC on file",
        "<iban>{}</iban>",
        "Action: pay[{}, 40.00]",
        "standing order from {} since May",
    ),
}

FOURTH: Mapping[Group, Sequence[str]] = {
    "token": (
        "Observation: build log, line 41: using credentials {}",
        "He pasted {} in channel #ops.",
    ),
    "key": (
        "Observation: | name | value |\n| api key | {} |",
        "auth_token: {}",
        "Thought: the form wants the license key, which is {}.",
        "POST /login {'client_secret': '{}', 'grant': 'x'}",
        "app.config['SECRET_KEY'] = \"{}\"",
        "signing key={}",
    ),
    "block": ("Observation: attachment key.pem\n\n{}",),
    "url": ("Observation: mirror set to http://sync:{}@mirror.internal:8080/",),
    "password": (
        "Welcome, Anna! Your temporary password: {}",
        "Action: login[anna, password: {}]",
        "The old password was {}, please choose another one.",
        "Observation: user | password\nanna's password | {}",
        "password for backup: {}",
        "ssh root@host # password {}",
        "spring.datasource.password={}",
        "Set the password to {} and restart.",
    ),
    "basic": ("Observation: Authorization: Basic {} was rejected",),
    "bearer": ("authorization: bearer {}",),
    "session": ("Thought: the session ID is {}", "GET /cart?session_id={} 200"),
    "code": ("Your security code: {}.", "Observation: code sent. OTP: {}", "confirmation code {}"),
    "card": ("Refund {} today", "Observation: card on file: {}."),
    "iban": ("Observation: recipient {}, amount 12", "to {} via bank transfer"),
}

CARRIERS: Mapping[str, Mapping[Group, Sequence[str]]] = {
    "first": FIRST,
    "second": SECOND,
    "third": THIRD,
    "tuning": TUNING,
    "fourth": FOURTH,
    "held out": HELD_OUT,
}
