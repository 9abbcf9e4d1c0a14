//! What a browser says about who asks, so that no page of another site can.
//!
//! A page that a person happens to have open may send requests to any address, also to this host,
//! and a name that its owner points at this host makes the two one site. So the name in `Host`
//! must be one of ours, `Origin` must be that name too, and what the browser itself calls
//! cross-site is refused. Following a link is the exception: it changes nothing, and only the
//! person sees what comes.

use crate::api::{Code, Problem};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::net::IpAddr;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// By which names a connection may be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    /// The address that was connected to; none on the unix socket, whose clients name no host of
    /// their own. There any name will do that nobody can own: an address, or a word without a dot.
    pub(crate) address: Option<IpAddr>,
    /// The names of the config.
    pub(crate) hosts: &'a [String],
}

/// Passes if no other site can be behind the request.
pub(crate) fn check(names: Names<'_>, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let host = the_only(headers, &header::HOST);
    let host = host.map_err(|()| wrong_host("there is no one `Host` in it"))?;
    match host {
        Some(host) if names.know(name_of(host)) => {}
        None if names.address.is_none() => {}
        None => return Err(wrong_host("it has no `Host`")),
        Some(host) => return Err(wrong_host(&format!("nobody here is `{}`", shown(host)))),
    }
    let origin = the_only(headers, &header::ORIGIN).unwrap_or(Some("twice"));
    if let Some(origin) = origin
        && !names.is_ours(origin, host.unwrap_or_default())
    {
        let detail = format!("a page of `{}` may not ask here", shown(origin));
        return Err(Problem::new(Code::CrossSite, detail));
    }
    let says = |name: &HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    let follows_a_link = (method == Method::GET || method == Method::HEAD)
        && says(&FETCH_MODE) == Some(b"navigate")
        && says(&FETCH_DEST) == Some(b"document");
    match says(&FETCH_SITE) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if follows_a_link => Ok(()),
        Some(_) => Err(Problem::new(Code::CrossSite, "a page of another site may not ask here")),
    }
}

/// Whether a page of ours, by all that the browser says, asks for a change.
pub(crate) fn is_same_origin(headers: &HeaderMap) -> bool {
    // Wherever `Origin` is there, it was compared already.
    headers.contains_key(header::ORIGIN)
        || headers.get(FETCH_SITE).is_some_and(|site| site.as_bytes() == b"same-origin")
}

fn wrong_host(why: &str) -> Problem {
    Problem::new(Code::WrongHost, format!("the request was not meant for this host: {why}"))
        .with_help("a name by which browsers may reach it stands in `hosts` of [http]")
}

fn shown(text: &str) -> String {
    crate::kernel::text::Text::clipped(text, 100).escape_debug().to_string()
}

/// The value of a header that may be there once.
fn the_only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_not_text| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

impl Names<'_> {
    fn know(self, name: &str) -> bool {
        let listed = || self.hosts.iter().any(|host| name.eq_ignore_ascii_case(host));
        if name.eq_ignore_ascii_case("localhost") || listed() {
            return true;
        }
        let address: Option<IpAddr> = name.parse().ok();
        match (self.address, address) {
            (Some(ours), Some(address)) => address.to_canonical() == ours.to_canonical(),
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (None, None) => !name.is_empty() && !name.contains('.'),
        }
    }

    /// Whether an origin is what the request was sent to, or a name of the config: a proxy may
    /// have put another `Host` in its place.
    fn is_ours(self, origin: &str, host: &str) -> bool {
        let Some((scheme, authority)) = origin.split_once("://") else { return false };
        let port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return false,
        };
        let bare = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_owned();
        let listed = || self.hosts.iter().any(|host| name_of(authority).eq_ignore_ascii_case(host));
        bare(authority).eq_ignore_ascii_case(&bare(host)) || listed()
    }
}

/// The name or address of an authority, without its port and brackets; nothing where it is none.
fn name_of(authority: &str) -> &str {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|it| it.parse::<u16>().is_ok());
    if port.is_empty() || is_port(port) { name } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: Option<&str>, method: &Method, lines: &[(&str, &str)]) -> &'static str {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let hosts = ["watch.example".to_owned()];
        let address = address.map(|address| address.parse().unwrap());
        let checked = check(Names { address, hosts: &hosts }, method, &headers);
        checked.map_or_else(|problem| problem.code.word(), |()| "ok")
    }

    fn get(address: Option<&str>, host: &str) -> &'static str {
        asked(address, &Method::GET, &[("host", host)])
    }

    #[test]
    fn the_host_must_be_the_address_localhost_or_a_name_of_the_config() {
        let ours = Some("127.0.0.1");
        for host in
            ["127.0.0.1:8474", "localhost:9000", "LOCALHOST", "watch.example", "Watch.Example:443"]
        {
            assert_eq!(get(ours, host), "ok", "{host}");
        }
        let named = ["evil.example", "127.0.0.2:8474", "", "localhost.evil.example", "[::1]", "x"];
        let odd = ["localhost:evil.example", "[127.0.0.1]evil.example", "localhost:", "[", "a]"];
        for host in named.into_iter().chain(odd) {
            assert_eq!(get(ours, host), "wrong_host", "{host}");
        }
        assert_eq!(get(Some("::1"), "[::1]:8474"), "ok");
        assert_eq!(get(Some("::ffff:10.0.0.7"), "10.0.0.7:8474"), "ok");
        assert_eq!(asked(ours, &Method::GET, &[]), "wrong_host");
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(asked(ours, &Method::GET, &twice), "wrong_host");
    }

    #[test]
    fn on_the_socket_any_name_will_do_that_nobody_can_own() {
        for host in ["x", "midwatch", "localhost:8474", "127.0.0.1:9", "[::1]:9", "watch.example"] {
            assert_eq!(get(None, host), "ok", "{host}");
        }
        assert_eq!(asked(None, &Method::GET, &[]), "ok");
        assert_eq!(get(None, "evil.example:8474"), "wrong_host");
    }

    #[test]
    fn an_origin_must_be_the_host_that_was_asked() {
        let post = |host: &str, origin: &str| {
            asked(Some("127.0.0.1"), &Method::POST, &[("host", host), ("origin", origin)])
        };
        for (host, origin) in [
            ("localhost:8474", "http://localhost:8474"),
            ("localhost:80", "http://localhost"),
            ("watch.example", "https://watch.example:443"),
            ("127.0.0.1:8474", "https://watch.example"),
        ] {
            assert_eq!(post(host, origin), "ok", "{origin} {host}");
        }
        for origin in
            ["http://localhost:3000", "null", "https://evil.example", "file://", "http://localhost"]
        {
            assert_eq!(post("localhost:8474", origin), "cross_site", "{origin}");
        }
    }

    #[test]
    fn what_the_browser_calls_cross_site_is_refused_but_for_links() {
        let with = |method: &Method, site: &str, mode: &str, dest: &str| {
            let host = ("host", "localhost");
            let rest =
                [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
            asked(Some("127.0.0.1"), method, &[&[host], &rest[..]].concat())
        };
        assert_eq!(with(&Method::GET, "same-origin", "cors", "empty"), "ok");
        assert_eq!(with(&Method::GET, "none", "navigate", "document"), "ok");
        assert_eq!(with(&Method::GET, "cross-site", "navigate", "document"), "ok");
        for (method, site, mode, dest) in [
            (&Method::GET, "cross-site", "no-cors", "image"),
            (&Method::GET, "same-site", "cors", "empty"),
            (&Method::GET, "cross-site", "navigate", "iframe"),
            (&Method::POST, "cross-site", "navigate", "document"),
        ] {
            assert_eq!(with(method, site, mode, dest), "cross_site", "{method} {site} {mode}");
        }
    }
}
