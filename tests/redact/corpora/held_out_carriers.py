"""Texts with a place for a secret that no rule was written or changed with.

They were written after the rules were done (commit d45d15d) and before they were measured on them.
Once a rule is changed because of one of these texts, they are tuning texts, and new ones are due.
"""

from collections.abc import Mapping, Sequence

from tests.redact.corpora.tuning_carriers import Group

HELD_OUT: Mapping[Group, Sequence[str]] = {
    "token": (
        "Hi Tom, the build needs {} in its settings, could you add it? Thanks, Eva",
        'resource "x" "y" {\n  auth = "{}"\n}',
        "<li>Integration: <b>{}</b></li>",
        "Observation: clipboard now holds: {}",
        "[11:02] eva: {}\n[11:03] tom: got it",
        "Error 401: {} has been revoked",
        "- uses: deploy@v2\n  with:\n    auth: {}",
        "const client = new Client({}, { retries: 3 });",
        "Thought: The note says {}. I will paste it.",
        "INSERT INTO integrations VALUES (7, 'crm', '{}', now());",
    ),
    "key": (
        "License key for the plotter: {}",
        "Observation: key1 = {} (primary)",
        "[reports]\naws_secret_access_key = {}\nregion = eu-west-1",
        "The signing key changed from last week to {}, please update your copy.",
        "Key: {}\nSecret: see the vault",
        "new StorageClient(account, '{}')",
        "HMAC with {} gives the right signature",
    ),
    "block": (
        "Attachment: server.pem\n\n{}\n\n-- \nEva",
        "echo '{}' > id_ed25519",
    ),
    "url": (
        "The old DSN was mssql://sa:{}@10.1.1.9:1433/erp, it still works.",
        'pip install --index-url "https://reader:{}@pypi.internal/simple" tools',
        "spark.jdbc.url=jdbc:mysql://etl:{}@warehouse/facts",
        "Observation: cloned from https://oauth2:{}@git.internal/web.git",
        "rsync://backup:{}@nas.internal/daily",
    ),
    "password": (
        "Hello, your account is ready. User name: anna.k, initial password: {}. Please change it.",
        "The admin password has not been changed since 2019, it is {}.",
        "Observation: [textbox 'Password' value='{}'] [button 'Sign in']",
        "Thought: To log in I need the password from the mail, which is {}.",
        "Action: type_text(element=12, text='{}', label='password')",
        "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: {}\n",
        "ansible_become_pass: {}",
        "- name: root\n  ssh_pwauth: true\n  plain_text_passwd: {}",
        "[11:02] eva: what was the wifi password again?\n[11:03] tom: {}",
        "smbclient //files/share -U anna%{}",
        "ldapsearch -D cn=admin -w {} -b dc=example",
        "htpasswd -b users anna {}",
        "<connection user='anna' password='{}' host='db1'/>",
        'String password = "{}";',
        "<tr><th>Account</th><th>Password</th></tr><tr><td>anna</td><td>{}</td></tr>",
        "Name: guest\nPass: {}\nValid: 24 h",
        "ALTER ROLE reporter WITH PASSWORD '{}';",
        "Please note the new password for the meeting room screen, {}, and tell nobody.",
        "I tried {} but the password was rejected.",
        "Zugang: anna, Kennwort: {}",
        "Identifiant : anna, mot de passe : {}",
        "password reminder: it is {} with a capital letter",
        "keytool -storepass {} -list",
        "export PGPASS={}",
    ),
    "basic": (
        "proxy header: Basic {}",
        'req.Header.Set("Authorization", "Basic {}")',
    ),
    "bearer": (
        "Observation: 403 for Authorization: Bearer {}",
        "wget --header='Authorization: Bearer {}' https://api.internal/files",
        "the bearer token in the log is {}, rotate it",
    ),
    "session": (
        "Observation: cookie JSESSIONID={} set",
        '{"sid": "{}", "ttl": 3600}',
        "session token = {}",
    ),
    "code": (
        "Your login code is {}. It is valid for 5 minutes.",
        "Observation: new SMS: {} is your bank code. Never share it.",
        "Action: fill(field='otp', value='{}')",
        "Thought: the authenticator shows {}, I will enter it now.",
        "[11:04] eva: the code for the door is {}",
        "Hi, the PIN for the shared printer is now {}.",
        "Two-factor code: {}",
        "MFA token: {}",
        "Wir haben Ihnen den Code {} gesendet.",
        "Type {} in the box to verify your phone.",
    ),
    "card": (
        "We could not charge {}; please use another card.",
        "Observation: form filled: number={}, cvc=***",
        "Thought: the card on the receipt is {}.",
    ),
    "iban": (
        "Bank: Example Bank, IBAN {}, reference 2026-17",
        "Observation: field account contains {}",
        "Please pay into {} within two weeks.",
    ),
}
