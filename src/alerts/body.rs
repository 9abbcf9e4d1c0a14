//! Messages in the form that each service takes, as its public documentation has it.

use crate::api::{NoticeItem, NoticeView};
use crate::config::Style;
use crate::kernel::text::Text;
use serde_json::{Value, json};

/// Longest text of a WeCom robot: its documentation says 2,048 bytes.
const WECOM_BYTES_MAX: usize = 2048;

/// Longest text for the others; each takes more, and nobody reads more.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// The body in that style. What `signed` brings goes into the body where the service wants it there.
pub(super) fn body(style: Style, notice: &NoticeView, signed: Option<(u64, &str)>) -> Value {
    match style {
        // https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks:
        // {"text": "…"}, with &, < and > escaped.
        Style::Slack => {
            let text = text(notice).replace('&', "&amp;").replace('<', "&lt;");
            json!({ "text": clipped(&text.replace('>', "&gt;"), TEXT_BYTES_MAX) })
        }
        // https://open.dingtalk.com/document/robots/custom-robot-access:
        // {"msgtype": "text", "text": {"content": "…"}}.
        Style::Dingtalk => json!({
            "msgtype": "text",
            "text": { "content": clipped(&text(notice), TEXT_BYTES_MAX) },
        }),
        // https://developer.work.weixin.qq.com/document/path/91770:
        // {"msgtype": "text", "text": {"content": "…"}}.
        Style::Wecom => json!({
            "msgtype": "text",
            "text": { "content": clipped(&text(notice), WECOM_BYTES_MAX) },
        }),
        // https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot:
        // {"msg_type": "text", "content": {"text": "…"}}, with "timestamp" in seconds and "sign"
        // as texts where the bot wants signatures. `<at …>` in a text would call people.
        Style::Feishu => {
            let text = text(notice).replace('<', "‹");
            let mut body = json!({
                "msg_type": "text",
                "content": { "text": clipped(&text, TEXT_BYTES_MAX) },
            });
            if let (Some((at, sign)), Some(body)) = (signed, body.as_object_mut()) {
                body.insert("timestamp".to_owned(), Value::from(at.to_string()));
                body.insert("sign".to_owned(), Value::from(sign));
            }
            body
        }
        Style::Json => serde_json::to_value(notice).unwrap_or_default(),
    }
}

/// A text that ends in a mark where something was cut off.
fn clipped(text: &str, bytes_max: usize) -> String {
    const MARK: &str = "\n…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let kept = Text::clipped(text, bytes_max.saturating_sub(MARK.len()));
    format!("{kept}{MARK}")
}

/// A message as people read it: a line that says what it is about, then a paragraph for each alert,
/// or the lines of the report.
pub fn text(notice: &NoticeView) -> String {
    let NoticeView { level, title, host, test, alerts, more, report, .. } = notice;
    let test = if *test { " test" } else { "" };
    let mut text = format!("[{level}{test}] midwatch on {host}: {title}\n");
    for item in alerts {
        text.push('\n');
        text += &paragraph(item, 1 < alerts.len());
    }
    if 0 < *more {
        text += &format!("\nand {more} more: midwatch alerts\n");
    }
    if !report.is_empty() {
        text += &format!("\n{}\n", report.join("\n"));
    }
    text
}

fn paragraph(item: &NoticeItem, with_text: bool) -> String {
    let NoticeItem { says, again: _, text, alert } = item;
    let mut lines = Vec::new();
    if with_text {
        lines.push(format!("{}: {text}", alert.level));
    }
    let mut facts = format!("alert {}, {}", alert.id, alert.rule);
    match (&alert.over, alert.count) {
        (Some(over), _) => facts += &format!(", from {} to {over}", alert.since),
        (None, 0 | 1) => facts += &format!(", since {}", alert.since),
        (None, count) => facts += &format!(", since {}, {count} times", alert.since),
    }
    lines.push(facts);
    if let Some(task) = &alert.task {
        lines.push(format!(
            "task {} {}: {}, {}, {} attempts, {} retries",
            task.id, task.kind, task.status, task.reason, task.attempts, task.retries
        ));
        lines.extend(task.error.iter().map(|error| format!("error: {error}")));
        lines.push(format!("log: {}", task.log));
    }
    if says != "over" {
        lines.push(format!("what to do: {}", alert.action));
        lines.extend(alert.advice.iter().map(|advice| format!("advice: {advice}")));
        lines.extend(alert.contact.iter().map(|contact| format!("contact: {contact}")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests;
