//! Who is at the other end of a connection, and what he may do.
//!
//! The kernel says who it is. Groups are looked up in `/etc/group` and not in `/proc`, because a
//! pid may have changed hands since the connection was made.

use crate::api::{Code, Problem};
use crate::kernel::event::Actor;
use std::path::Path;

/// What a caller may do; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Look.
    Read,
    /// Also submit types of the config.
    Submit,
    /// Also cancel, pause, reset and the like.
    Operate,
    /// Also work, and submit commands of his own: the daemon's user and root.
    Own,
}

impl Access {
    /// The role's name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Operate => "operate",
            Self::Own => "own",
        }
    }
}

/// How it is known who somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// The kernel says it is this user.
    User(u32),
    /// A token says what he may do.
    Token,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Who it is.
    pub(crate) who: Who,
    /// What it may do.
    pub(crate) access: Access,
}

impl Peer {
    /// Somebody who showed nothing, at what is open to all.
    pub(crate) const STRANGER: Self = Self { who: Who::Token, access: Access::Read };

    /// A user.
    pub(crate) const fn user(uid: u32, access: Access) -> Self {
        Self { who: Who::User(uid), access }
    }

    /// In whose name it acts.
    pub(crate) fn actor(self) -> Actor {
        match self.who {
            Who::User(uid) => Actor::User(uid),
            Who::Token => Actor::Trigger(format!("token {}", self.access.word()).into()),
        }
    }

    /// Passes if the peer may do this.
    pub(crate) fn require(self, access: Access, what: &str, doors: &Doors) -> Result<(), Problem> {
        if access <= self.access {
            return Ok(());
        }
        let uid = match self.who {
            Who::User(uid) => uid,
            Who::Token => return Err(self.refuse_token(access, what, doors)),
        };
        let who = match (access, &doors.operate) {
            (Access::Operate, Some(group)) => format!(
                "the daemon's user (uid {}), root and the group `{}` may",
                doors.owner, group.name
            ),
            _ => format!("only the daemon's user (uid {}) and root may", doors.owner),
        };
        let problem = Problem::new(Code::NotPermitted, format!("uid {uid} may not {what}: {who}"));
        Err(match (access, &doors.operate) {
            (Access::Operate, None) => {
                problem.with_help("name a group that may with `operate_group` in [http]")
            }
            _ => problem,
        })
    }

    fn refuse_token(self, access: Access, what: &str, doors: &Doors) -> Problem {
        let role = self.access.word();
        let who = match access {
            Access::Own => {
                let owner = doors.owner;
                format!("only the daemon's user (uid {owner}) and root may, by the unix socket")
            }
            Access::Read | Access::Submit | Access::Operate => {
                format!("that takes a token with the role `{}`", access.word())
            }
        };
        let detail = format!("a token with the role `{role}` may not {what}: {who}");
        Problem::new(Code::NotPermitted, detail)
    }
}

/// A group of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name, or its number as it was written.
    pub(crate) name: String,
    /// Its number.
    pub(crate) gid: u32,
}

/// Who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Doors {
    /// The daemon's user.
    pub(crate) owner: u32,
    /// The group that may operate.
    pub(crate) operate: Option<Group>,
}

impl Doors {
    /// What a peer with these ids may do.
    pub(crate) fn admit(&self, uid: u32, gid: u32) -> Peer {
        let member = || self.operate.as_ref().is_some_and(|group| is_member(group, uid, gid));
        let access = if uid == self.owner || uid == 0 {
            Access::Own
        } else if member() {
            Access::Operate
        } else {
            Access::Submit
        };
        Peer::user(uid, access)
    }
}

fn is_member(group: &Group, uid: u32, gid: u32) -> bool {
    gid == group.gid || {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
        names(&read("/etc/group"), &read("/etc/passwd"), group.gid, uid)
    }
}

/// Whether a line of `groups` with this number lists a user that `users` gives this id.
fn names(groups: &str, users: &str, gid: u32, uid: u32) -> bool {
    let has_uid = |name: &str| {
        users.lines().any(|line| {
            let mut fields = line.split(':');
            fields.next() == Some(name) && fields.nth(1).and_then(|id| id.parse().ok()) == Some(uid)
        })
    };
    let mut listed = groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let number: u32 = fields.nth(2)?.parse().ok()?;
        (number == gid).then(|| fields.next()).flatten()
    });
    listed.any(|members| members.split(',').any(|name| has_uid(name.trim())))
}

/// The group with that name, or that number.
pub(crate) fn find_group(name: &str) -> Option<Group> {
    let gid = crate::process::group_id(name)?;
    Some(Group { name: name.to_owned(), gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: &str = "root:x:0:\nops:x:50:ada, bob\nempty:x:51:\nbroken\n";
    const USERS: &str = "root:x:0:0::/root:/bin/sh\nada:x:1001:1001::/:/bin/sh\nbob:x:1002:7::/:\n";

    #[test]
    fn members_are_those_that_the_group_lists() {
        let member = |gid, uid| names(GROUPS, USERS, gid, uid);
        assert!(member(50, 1001));
        assert!(member(50, 1002));
        assert!(!member(50, 1003));
        assert!(!member(51, 1001));
        assert!(!member(52, 1001));
    }

    #[test]
    fn who_may_do_what() {
        let ops = Some(Group { name: "ops".to_owned(), gid: 50 });
        let doors = Doors { owner: 900, operate: ops };
        let access = |uid, gid| doors.admit(uid, gid).access;
        assert_eq!(access(900, 900), Access::Own);
        assert_eq!(access(0, 0), Access::Own);
        assert_eq!(access(65_533, 50), Access::Operate);
        assert_eq!(access(65_533, 51), Access::Submit);
        assert!(Access::Submit < Access::Operate && Access::Operate < Access::Own);
    }

    #[test]
    fn a_refusal_says_who_may() {
        let peer = Peer::user(7, Access::Submit);
        let mut doors = Doors { owner: 900, operate: None };
        let refusal = peer.require(Access::Operate, "cancel a task", &doors).unwrap_err();
        assert_eq!(refusal.code, Code::NotPermitted);
        assert_eq!(
            refusal.detail,
            "uid 7 may not cancel a task: only the daemon's user (uid 900) and root may"
        );
        assert!(refusal.help.unwrap().contains("operate_group"));
        doors.operate = Some(Group { name: "ops".to_owned(), gid: 50 });
        let refusal = peer.require(Access::Operate, "cancel a task", &doors).unwrap_err();
        assert!(refusal.detail.contains("the group `ops`"), "{}", refusal.detail);
        assert!(peer.require(Access::Submit, "look", &doors).is_ok());
        let peer = Peer { who: Who::Token, access: Access::Read };
        let refused = |access, what| peer.require(access, what, &doors).unwrap_err().detail;
        assert_eq!(
            refused(Access::Operate, "cancel a task"),
            "a token with the role `read` may not cancel a task: that takes a token with the role \
             `operate`"
        );
        assert!(refused(Access::Own, "act as a worker").ends_with("root may, by the unix socket"));
    }
}
