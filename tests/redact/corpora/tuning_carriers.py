"""More texts with a place for a secret, with which the rules on what stands near a word were tuned.

They are of many kinds on purpose: sentences where the word follows, tables, forms, commands, chats.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

Group = Literal[
    "token", "key", "block", "url", "password", "basic", "bearer", "session", "code", "card", "iban"
]

TUNING: Mapping[Group, Sequence[str]] = {
    "token": (
        "{} was found in the repository by the scanner.",
        "Please revoke {} today.",
        "svc.connect('{}')",
        "  value: {}  # from the wiki",
        "mail from ops: here you go {} (valid until Friday)",
        "a;b;{};d",
        "header X-Api: {}\r\n",
        "?access={}#top",
    ),
    "key": (
        "{} is the key for the billing service",
        "use the following key\n\n    {}\n\nand restart",
        "Observation: row 4: storage, {}, active",
        "echo {} | base64 -d",
        "set-config reports.key {}",
        '["prod", "{}", 7]',
    ),
    "block": (
        "{}",
        "key file follows; {} ; please install it",
    ),
    "url": (
        "sftp -P 22 anna:{}@files.internal",
        "jdbc:postgresql://reporter:{}@db:5432/sales",
        "dsn = 'smtp://mailer:{}@smtp.internal:587'",
        "proxy http://p17:{}@proxy.internal:3128 is down",
    ),
    "password": (
        "{} is the password of the new laptop.",
        "user | password\nanna | {}\n",
        "login,password,role\nanna,{},admin\n",
        "Password\n{}\nRemember me",
        "password (temporary): {}",
        "curl -u anna:{} https://api.internal/v1/me",
        "CREATE USER anna IDENTIFIED BY '{}';",
        "page.fill('#password', '{}')",
        "He typed {} into the password field.",
        'fields: [{"name": "password", "value": "{}"}]',
        "<input type='password' value='{}'>",
        "credentials: anna / {}",
        "The wifi is guest-net, pw {}",
        "pass: {}",
        "pw={}",
        "The passphrase of that key is still {}.",
        "My login is anna and my password, {}, has not changed.",
        "Password -> {}",
        "Password - {}",
        "user anna, pwd {}",
        "Action: type[password field] {}",
        "Action: input(id=14, text='{}')  # the password",
        "Observation: note: door of the safe, password {}",
        "Le mot de passe est {}",
        "Das Passwort lautet {}.",
        "La contraseña es {}",
        "echo 'anna:{}' | chpasswd",
        "net use Z: \\\\files\\share {} /user:anna",
        "unzip -P {} report.zip",
        "mysqldump -uroot -p{} sales",
        "redis-cli -a {} ping",
        "set the password: old one {} expired",
        "Username: anna Password: {} Server: db1",
        "SMTP_PASS={}",
        "spring.datasource.password={}",
        "requirepass {}",
        "password\tanna\t{}",
        "* Password for `report`: `{}`",
        "**Password:** {}",
        "Log in as root / {} and check the disk.",
    ),
    "basic": (
        "> Authorization: Basic {}",
        "the header was Basic {} again",
    ),
    "bearer": (
        "sent with {} as bearer token",
        "auth=Bearer%20{}",
    ),
    "session": (
        "PHPSESSID={}; path=/",
        "The session {} was resumed.",
        "sid: {}",
    ),
    "code": (
        "{} is your verification code.",
        "Use {} to confirm your login.",
        "G-{} is your code",
        "Your code for signing in: {}",
        "Please type the code {} that we sent you.",
        "Login code: {}. Do not give it to anyone.",
        "Security code\n{}\nConfirm",
        "2FA {}",
        "The PIN of the card ending in 1234 is {}.",
        "The alarm code has been changed to {}.",
        "passcode {}",
        "Action: type[code] {}",
        "door: front; code: {}; since May",
        "Enter {} when asked for the PIN.",
        "TOTP -> {}",
    ),
    "card": (
        "He read out {} on the phone.",
        "card;{};04/29;Anna Smith",
        "pan: {}",
    ),
    "iban": (
        "{} is the account of the supplier.",
        "from {} to the savings account",
        "acct;{};EUR",
    ),
}
