//! `[alerts.NAME]` and `[ping]`.

use super::{around, check_faults, flag, our_uid, shown, write};
use crate::config::{Address, Config, Named, Style, Way};
use crate::kernel::alerts::Grade;
use crate::kernel::ids::Millis;
use expect_test::expect;

const ALL: &str = "data_dir = '/srv/m'
[alerts.ops]
webhook = 'https://hooks.example.org/services/T0K3N?x=T0K3N'
style = 'dingtalk'
secret_file = '/srv/secret'
ca_file = '/srv/ca.pem'
min_level = 'info'
group_wait = '1s'
group_interval = '2m'
repeat = '0s'
max_per_hour = 5
send_resolved = false
report = true
[alerts.pager]
command = ['/usr/local/bin/page']
min_level = 'critical'
[alerts.file]
webhook_file = '/srv/hook'
[ping]
url = 'https://ping.example.org/T0K3N'
every = '1m'
";

// spec: ALT-011
#[test]
fn every_key_arrives_and_an_address_is_shown_as_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("midwatch.toml");
    write(&file, ALL);
    let named = Named { config: flag(&file), ..Named::default() };
    let config = Config::load(&named, &around(dir.path(), our_uid())).unwrap();
    let ops = &config.alerts["ops"];
    assert_eq!((ops.channel.min_grade, ops.channel.max_per_hour), (Grade::Info, 5));
    assert_eq!(ops.channel.group_interval, Millis::secs(120));
    let Way::Webhook(webhook) = &ops.way else { panic!("{ops:?}") };
    let Address::Url(url) = &webhook.address else { panic!("{webhook:?}") };
    assert_eq!(webhook.style, Style::Dingtalk);
    assert!(url.reveal().ends_with("?x=T0K3N"));
    assert!(!format!("{config:?}").contains("T0K3N"), "not in a log either");
    let text = shown(&config, dir.path());
    assert!(!text.contains("T0K3N"), "{text}");
    let of = |line: &&str| line.starts_with("alerts.") || line.starts_with("ping.");
    let lines: Vec<_> = text.lines().filter(of).collect();
    expect![[r#"
        alerts.file.webhook_file = "/srv/hook"  # DIR/midwatch.toml:18
        alerts.file.style = "json"  # default
        alerts.file.secret_file =   # default
        alerts.file.ca_file =   # default
        alerts.file.min_level = "warning"  # default
        alerts.file.group_wait = "10s"  # default
        alerts.file.group_interval = "5m"  # default
        alerts.file.repeat = "4h"  # default
        alerts.file.max_per_hour = 20  # default
        alerts.file.send_resolved = true  # default
        alerts.file.report = false  # default
        alerts.ops.webhook = "https://hooks.example.org/…"  # DIR/midwatch.toml:3
        alerts.ops.style = "dingtalk"  # DIR/midwatch.toml:4
        alerts.ops.secret_file = "/srv/secret"  # DIR/midwatch.toml:5
        alerts.ops.ca_file = "/srv/ca.pem"  # DIR/midwatch.toml:6
        alerts.ops.min_level = "info"  # DIR/midwatch.toml:7
        alerts.ops.group_wait = "1s"  # DIR/midwatch.toml:8
        alerts.ops.group_interval = "2m"  # DIR/midwatch.toml:9
        alerts.ops.repeat = "0s"  # DIR/midwatch.toml:10
        alerts.ops.max_per_hour = 5  # DIR/midwatch.toml:11
        alerts.ops.send_resolved = false  # DIR/midwatch.toml:12
        alerts.ops.report = true  # DIR/midwatch.toml:13
        alerts.pager.command = ["/usr/local/bin/page"]  # DIR/midwatch.toml:15
        alerts.pager.min_level = "critical"  # DIR/midwatch.toml:16
        alerts.pager.group_wait = "10s"  # default
        alerts.pager.group_interval = "5m"  # default
        alerts.pager.repeat = "4h"  # default
        alerts.pager.max_per_hour = 20  # default
        alerts.pager.send_resolved = true  # default
        alerts.pager.report = false  # default
        ping.url = "https://ping.example.org/…"  # DIR/midwatch.toml:20
        ping.ca_file =   # default
        ping.every = "1m"  # DIR/midwatch.toml:21
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn a_channel_that_cannot_be_is_refused_and_no_refusal_repeats_an_address() {
    check_faults(
        "[alerts.none]\nmin_level = 'high'\n\
         [alerts.both]\nwebhook = 'https://a/b'\ncommand = ['/bin/true']\n\
         [alerts.bad]\nwebhook = 'https://user:T0K3N@a/b'\n\
         [alerts.signed]\nwebhook = 'https://a/b'\nstyle = 'slack'\nsecret_file = '/srv/s'\n\
         [alerts.told]\ncommand = ['/bin/true']\nstyle = 'slack'\nrepeat = '5s'\n\
         max_per_hour = 100\n[alerts.'a b']\ncommand = ['/bin/true']\n\
         [ping]\nevery = '1ms'\n",
        &expect![[r#"
            error: `alerts.none.webhook` is missing, or `webhook_file`, or `command` (midwatch.toml, line 1)
              say where it goes: webhook = "https://example.org/hook"
            error: `alerts.none.min_level` must be one of info, warning, critical, not `high` (midwatch.toml, line 2)
            error: `alerts.both.command` and `webhook` exclude each other (midwatch.toml, line 5)
            error: `alerts.bad.webhook` must be an address such as https://example.org/hook, without user or space (midwatch.toml, line 7)
            error: `alerts.signed.secret_file` means nothing for this style (midwatch.toml, line 11)
              only dingtalk and feishu sign their requests
            error: `alerts.told.style` means nothing beside `command` (midwatch.toml, line 14)
            error: `alerts.told.repeat` must be 0s for never, or at least 1m (midwatch.toml, line 15)
            error: `alerts.told.max_per_hour` must be from 1 to 60, not 100 (midwatch.toml, line 16)
            error: `a b` cannot be the name of a channel of alerts (midwatch.toml, line 17)
              at most 64 letters a-z, digits, `_`, `-` and `.`, a letter or digit first
            error: `ping.url` is missing, or `url_file`, or `command` (midwatch.toml, line 19)
              say where it goes: url = "https://example.org/hook"
            error: `ping.every` must be from 1s to 1d, not 1ms (midwatch.toml, line 20)
        "#]],
    );
    let one = |place: u32| format!("[alerts.a{place}]\ncommand = ['/bin/true']\n");
    let many: Vec<_> = (0..17).map(one).collect();
    check_faults(
        &many.concat(),
        &expect![[r#"
        error: there are more than 16 [alerts.NAME] (midwatch.toml, line 19)
          a webhook or a command may pass on to others what it is told
    "#]],
    );
}
