//! The frame of every page: head, style, script, and what the browser is told to keep to.

use super::escape::{Html, put};
use crate::kernel::ids::Timestamp;
use crate::units::{Zone, rfc3339};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What a page is about.
pub(super) struct Frame<'a> {
    /// Title of the window.
    pub(super) title: &'a str,
    /// The host.
    pub(super) host: &'a str,
    /// When it was made.
    pub(super) now: Timestamp,
    /// The last record that it shows, from which the script goes on; none for a page that stands.
    pub(super) seq: Option<u64>,
    /// The one task that it is about.
    pub(super) task: Option<u64>,
}

/// A whole page around its content.
pub(super) fn page(frame: &Frame<'_>, content: &Html) -> String {
    let Frame { title, host, now, seq, task } = frame;
    let time = format!("{} UTC", Zone::Utc.time(*now));
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.raw("<link rel=\"icon\" href=\"data:,\"><title>");
    put!(html, (title), "</title><style>");
    html.raw(STYLE);
    put!(html, "</style></head><body data-at=\"", (time), "\"");
    if let Some(seq) = seq {
        put!(html, " data-seq=\"", (seq), "\"");
    }
    if let Some(task) = task {
        put!(html, " data-task=\"", (task), "\"");
    }
    html.raw("><a class=\"skip\" href=\"#main\">Skip to the content</a>");
    put!(html, "<header class=\"top\"><a href=\"/\">midwatch on ", (host), "</a>");
    put!(html, "<span class=\"soft\" id=\"live\">as of ", (time), "</span></header>");
    html.raw("<p class=\"unseen\" id=\"say\" role=\"status\" aria-live=\"polite\"></p>");
    html.raw("<main id=\"main\">");
    html.append(content);
    html.raw("</main><footer class=\"foot soft\"><small>Made at ");
    put!(
        html,
        "<time datetime=\"",
        (rfc3339(*now)),
        "\">",
        (Zone::Utc.date_time(*now)),
        "</time>. "
    );
    html.raw("Times are UTC. Without JavaScript this is a snapshot: reload it.</small></footer>");
    if seq.is_some() {
        html.raw("<script>");
        html.raw(SCRIPT);
        html.raw("</script>");
    }
    html.raw("</body></html>\n");
    html.finish()
}

/// The policy under which a browser shows a page: nothing but this style and this script, requests
/// to us alone, in no frame.
pub(super) fn policy() -> String {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    format!(
        "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}
