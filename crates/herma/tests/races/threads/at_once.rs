//! Steps in which two requests reach one conversation at the same time.

use super::apis::{Question, TurnResult};
use super::checks::{in_turns, said};
use super::reference::{Address, Target};
use super::scenario::{Expected, ThreadScenario};
use super::server::{answer, words};
use super::steps::{Api, ConcurrentTurn, ModelAnswer};

/// About how many tokens each question and each answer has.
const SIZE: usize = 20;

impl ThreadScenario {
    pub(super) async fn at_once(&mut self, slug: &'static str, turns: [ConcurrentTurn; 2]) {
        let before = self.reference.of_slug(slug);
        let asked = turns.map(|turn| self.numbered(slug, turn));
        let [one, other] = asked.each_ref().map(|(_, question)| question.clone());
        let (one, other) = tokio::join!(one.ask(self.client(turns[0].second)), other.ask(self.client(turns[1].second)));
        let seen = [one, other];
        let fork = before.and_then(|thread| self.reference.last_response(thread)).map(|last| last.turn);
        let (mut branches, mut handle) = (Vec::new(), None);
        for ((number, question), seen) in asked.iter().zip(&seen) {
            assert_eq!(seen.text, Some(answer(*number, SIZE)), "{question:?}: {seen:?}");
            let told = seen.session["conversation_id"].as_str().expect("a conversation").to_owned();
            if seen.session["resolution"] == "branched" {
                assert!(matches!(question.address, Address::Previous(_)), "a slug is never a branch");
                branches.push((*number, question, seen, told));
            } else {
                assert!(handle.is_none_or(|known| known == told), "a slug has one conversation");
                handle = Some(told);
            }
        }
        let handle = handle.expect("a turn that continues the conversation");
        let target = before.map_or(Target::Fresh(Some(slug)), Target::Continue);
        for (number, question, seen, told) in branches {
            let (thread, turn) = (before.expect("a source"), fork.expect("a last response"));
            let target = Target::Branch(thread, turn);
            let thread = self.reference.find_or_add(&target, &told);
            let now = said(&self.client(false), &told).await;
            let inherited = self.reference.threads[thread].said().len();
            let expected = Expected::ModelAnswer(answer(number, SIZE));
            self.check_and_record_rows(number, question, thread, &now[inherited..], &expected, seen);
            self.check_transcript(thread, &now);
        }
        let thread = self.reference.find_or_add(&target, &handle);
        let now = said(&self.client(true), &handle).await;
        let known = self.reference.threads[thread].said().len();
        for (place, (number, rows)) in in_turns(&now[known..]).into_iter().enumerate() {
            let at = asked.iter().position(|(asked, _)| *asked == number).expect("a turn that was asked for");
            let question = &asked[at].1;
            let is_chained = matches!(question.address, Address::Previous(_));
            assert!(!is_chained || place == 0, "a chained turn comes right after its response");
            self.check_and_record_rows(
                number,
                question,
                thread,
                rows,
                &Expected::ModelAnswer(answer(number, SIZE)),
                &seen[at],
            );
        }
        self.check_transcript(thread, &now);
    }

    /// A numbered question that names the slug, or the last response if the turn is chained.
    fn numbered(&mut self, slug: &'static str, turn: ConcurrentTurn) -> (usize, Question) {
        let number = self.reference.number();
        self.server.script(number, ModelAnswer::Text(SIZE));
        let last = self.reference.of_slug(slug).and_then(|thread| self.reference.last_response(thread));
        let is_chat = matches!(turn.api, Api::Chat | Api::StreamedChat);
        let address = match last.filter(|_| turn.chained && !is_chat) {
            Some(last) => Address::Previous(last.id.clone()),
            None => Address::Conversation(slug.to_owned()),
        };
        (number, Question { address, api: turn.api, text: words(number, SIZE), stored: true })
    }

    /// Sends a turn while the conversation is deleted. If the turn is first, it is deleted with its conversation.
    /// Else the slug starts a new conversation.
    pub(super) async fn deleted_during(&mut self, slug: &'static str, turn: ConcurrentTurn, second: bool) {
        let api = match turn.api {
            Api::Background | Api::Run => Api::Response,
            api => api,
        };
        let before = self.reference.of_slug(slug);
        let (number, question) = self.numbered(slug, ConcurrentTurn { api, ..turn });
        let path = format!("/v1/conversations/{slug}");
        let (asking, deleting) = (self.client(turn.second), self.client(second));
        let (seen, deleted) = tokio::join!(question.clone().ask(asking), deleting.delete(&path));
        let gone = (deleted.status == 200).then(|| deleted.json()["id"].as_str().unwrap().to_owned());
        match deleted.status {
            200 => {}
            404 => assert_eq!(before, None, "{}", deleted.text()),
            _ => assert_eq!(deleted.expect(409)["error"]["code"], "conversation_busy"),
        }
        let known = before.map(|thread| self.reference.threads[thread].handle.clone());
        let is_deleted = gone.is_some() && gone == known;
        if seen.status == Some(404) {
            let is_chained = matches!(question.address, Address::Previous(_));
            assert!(is_chained && is_deleted, "{question:?} found nothing: {seen:?}");
        } else {
            self.check_before_or_after_deletion(slug, number, &question, &seen, known.as_deref(), gone.as_deref())
                .await;
        }
        for thread in self.reference.threads.iter_mut().filter(|thread| Some(&thread.handle) == gone.as_ref()) {
            thread.is_alive = false;
        }
    }

    async fn check_before_or_after_deletion(
        &mut self,
        slug: &'static str,
        number: usize,
        question: &Question,
        seen: &TurnResult,
        known: Option<&str>,
        gone: Option<&str>,
    ) {
        assert_eq!(seen.text, Some(answer(number, SIZE)), "{question:?}: {seen:?}");
        let told = seen.session["conversation_id"].as_str().expect("a conversation");
        if gone == Some(told) {
            if known != gone {
                self.reference.find_or_add(&Target::Fresh(Some(slug)), told);
            }
            return;
        }
        let went_on = known == Some(told);
        assert!(went_on || known == gone, "a slug that was not deleted got a new conversation");
        let target =
            self.reference.of_slug(slug).filter(|_| went_on).map_or(Target::Fresh(Some(slug)), Target::Continue);
        let thread = self.reference.find_or_add(&target, told);
        let now = said(&self.client(false), told).await;
        let before = self.reference.threads[thread].said().len();
        self.check_and_record_rows(
            number,
            question,
            thread,
            &now[before..],
            &Expected::ModelAnswer(answer(number, SIZE)),
            seen,
        );
        self.check_transcript(thread, &now);
    }
}
