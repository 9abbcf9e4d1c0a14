use super::*;
use crate::api::{AlertView, FailedTask};
use crate::kernel::ids::TaskId;
use expect_test::{Expect, expect};

fn alert(id: u64) -> AlertView {
    AlertView {
        id,
        rule: "task_failed".to_owned(),
        subject: "fetch_data".to_owned(),
        level: "critical".to_owned(),
        what: "3 tasks of type fetch_data failed one after the other".to_owned(),
        state: "standing".to_owned(),
        since: "2026-03-14T02:10:00.000Z".to_owned(),
        last: "2026-03-14T02:39:00.000Z".to_owned(),
        over: None,
        count: 3,
        acked: None,
        task: Some(FailedTask {
            id: TaskId(88213),
            kind: "fetch_data".to_owned(),
            status: "DEAD".to_owned(),
            reason: "retries_exhausted".to_owned(),
            attempts: 6,
            retries: 5,
            error: Some("<b> & HTTP 502".to_owned()),
            log: "midwatch log 88213".to_owned(),
        }),
        action: "read the log of the last attempt".to_owned(),
        advice: Some("check the upstream API first".to_owned()),
        contact: Some("ops".to_owned()),
        commands: Vec::new(),
    }
}

fn item(id: u64, says: &str) -> NoticeItem {
    let text = alert(id).what;
    NoticeItem { says: says.to_owned(), again: false, text, alert: alert(id) }
}

fn notice(alerts: Vec<NoticeItem>) -> NoticeView {
    NoticeView {
        channel: "ops".to_owned(),
        level: "critical".to_owned(),
        title: "3 tasks of type fetch_data failed one after the other".to_owned(),
        host: "relay-7".to_owned(),
        at: "2026-03-14T02:40:00.000Z".to_owned(),
        test: false,
        alerts,
        more: 0,
        report: Vec::new(),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an Expect is made where it is used")]
fn check(style: Style, expected: Expect) {
    let made = body(style, &notice(vec![item(7, "stands")]), Some((1_599_360_473, "c2lnbg==")));
    expected.assert_eq(&serde_json::to_string_pretty(&made).unwrap());
}

#[test]
#[expect(clippy::too_many_lines, reason = "there are five")]
fn each_service_gets_the_form_that_it_documents() {
    check(
        Style::Slack,
        expect![[r#"
        {
          "text": "[critical] midwatch on relay-7: 3 tasks of type fetch_data failed one after the other\n\nalert 7, task_failed, since 2026-03-14T02:10:00.000Z, 3 times\ntask 88213 fetch_data: DEAD, retries_exhausted, 6 attempts, 5 retries\nerror: &lt;b&gt; &amp; HTTP 502\nlog: midwatch log 88213\nwhat to do: read the log of the last attempt\nadvice: check the upstream API first\ncontact: ops\n"
        }"#]],
    );
    check(
        Style::Dingtalk,
        expect![[r#"
        {
          "msgtype": "text",
          "text": {
            "content": "[critical] midwatch on relay-7: 3 tasks of type fetch_data failed one after the other\n\nalert 7, task_failed, since 2026-03-14T02:10:00.000Z, 3 times\ntask 88213 fetch_data: DEAD, retries_exhausted, 6 attempts, 5 retries\nerror: <b> & HTTP 502\nlog: midwatch log 88213\nwhat to do: read the log of the last attempt\nadvice: check the upstream API first\ncontact: ops\n"
          }
        }"#]],
    );
    check(
        Style::Wecom,
        expect![[r#"
        {
          "msgtype": "text",
          "text": {
            "content": "[critical] midwatch on relay-7: 3 tasks of type fetch_data failed one after the other\n\nalert 7, task_failed, since 2026-03-14T02:10:00.000Z, 3 times\ntask 88213 fetch_data: DEAD, retries_exhausted, 6 attempts, 5 retries\nerror: <b> & HTTP 502\nlog: midwatch log 88213\nwhat to do: read the log of the last attempt\nadvice: check the upstream API first\ncontact: ops\n"
          }
        }"#]],
    );
    check(
        Style::Feishu,
        expect![[r#"
        {
          "content": {
            "text": "[critical] midwatch on relay-7: 3 tasks of type fetch_data failed one after the other\n\nalert 7, task_failed, since 2026-03-14T02:10:00.000Z, 3 times\ntask 88213 fetch_data: DEAD, retries_exhausted, 6 attempts, 5 retries\nerror: ‹b> & HTTP 502\nlog: midwatch log 88213\nwhat to do: read the log of the last attempt\nadvice: check the upstream API first\ncontact: ops\n"
          },
          "msg_type": "text",
          "sign": "c2lnbg==",
          "timestamp": "1599360473"
        }"#]],
    );
    check(
        Style::Json,
        expect![[r#"
        {
          "alerts": [
            {
              "acked": null,
              "action": "read the log of the last attempt",
              "advice": "check the upstream API first",
              "again": false,
              "commands": [],
              "contact": "ops",
              "count": 3,
              "id": 7,
              "last": "2026-03-14T02:39:00.000Z",
              "level": "critical",
              "over": null,
              "rule": "task_failed",
              "says": "stands",
              "since": "2026-03-14T02:10:00.000Z",
              "state": "standing",
              "subject": "fetch_data",
              "task": {
                "attempts": 6,
                "error": "<b> & HTTP 502",
                "id": 88213,
                "log": "midwatch log 88213",
                "reason": "retries_exhausted",
                "retries": 5,
                "status": "DEAD",
                "type": "fetch_data"
              },
              "text": "3 tasks of type fetch_data failed one after the other",
              "what": "3 tasks of type fetch_data failed one after the other"
            }
          ],
          "at": "2026-03-14T02:40:00.000Z",
          "channel": "ops",
          "host": "relay-7",
          "level": "critical",
          "more": 0,
          "test": false,
          "title": "3 tasks of type fetch_data failed one after the other"
        }"#]],
    );
}

/// The form alone, so that no snapshot can be wrong unnoticed: which keys there are, and of what.
#[test]
fn the_forms_are_those_of_the_documentation() {
    fn shape(value: &Value) -> String {
        match value {
            Value::Object(map) => {
                let keys = map.iter().map(|(key, value)| format!("{key}: {}", shape(value)));
                format!("{{{}}}", keys.collect::<Vec<_>>().join(", "))
            }
            Value::String(text) if text.len() < 20 => text.clone(),
            Value::String(_) => "…".to_owned(),
            other => other.to_string(),
        }
    }
    let of = |style, signed| shape(&body(style, &notice(vec![item(7, "stands")]), signed));
    assert_eq!(of(Style::Slack, None), "{text: …}");
    assert_eq!(of(Style::Dingtalk, None), "{msgtype: text, text: {content: …}}");
    assert_eq!(of(Style::Wecom, None), "{msgtype: text, text: {content: …}}");
    assert_eq!(of(Style::Feishu, None), "{content: {text: …}, msg_type: text}");
    assert_eq!(
        of(Style::Feishu, Some((1_599_360_473, "c2lnbg=="))),
        "{content: {text: …}, msg_type: text, sign: c2lnbg==, timestamp: 1599360473}"
    );
}

#[test]
fn a_message_names_some_counts_the_rest_and_is_cut_where_the_service_wants_it() {
    let mut many = notice((0..10).map(|id| item(id, "stands")).collect());
    many.more = 490;
    let text = text(&many);
    assert!(text.ends_with("\nand 490 more: midwatch alerts\n"), "{text}");
    let cut = body(Style::Wecom, &many, None);
    let cut = cut["text"]["content"].as_str().unwrap();
    assert!(cut.len() <= WECOM_BYTES_MAX && cut.ends_with('…'), "{cut}");
    let over = super::text(&notice(vec![item(7, "over")]));
    assert!(!over.contains("what to do"), "what is over asks for nothing: {over}");
}

#[test]
fn a_report_is_its_lines_in_every_form() {
    let lines = ["the last hour of fetch_data: 2 created", "the last hour of render: 1 DEAD"];
    let report = lines.map(str::to_owned).to_vec();
    let title = "the hourly report".to_owned();
    let report = NoticeView { level: "info".to_owned(), title, report, ..notice(Vec::new()) };
    let told = format!("[info] midwatch on relay-7: the hourly report\n\n{}\n", lines.join("\n"));
    assert_eq!(text(&report), told);
    for style in [Style::Slack, Style::Dingtalk, Style::Wecom, Style::Feishu] {
        let body = body(style, &report, None).to_string();
        assert!(lines.iter().all(|line| body.contains(line)), "{body}");
    }
    assert_eq!(body(Style::Json, &report, None)["report"], json!(lines));
    assert!(body(Style::Json, &notice(Vec::new()), None).get("report").is_none());
}
