//! Steps in which two requests reach one conversation at the same time.

use super::apis::{Question, Seen};
use super::book::{Address, Target};
use super::checks::{in_turns, said};
use super::life::{Expected, Life};
use super::server::{answer, words};
use super::steps::{Answer, Api, Way};

/// About how many tokens each question and each answer has.
const SIZE: usize = 20;

impl Life {
    pub(super) async fn at_once(&mut self, slug: &'static str, ways: [Way; 2]) {
        let before = self.book.of_slug(slug);
        let asked = ways.map(|way| self.numbered(slug, way));
        let [one, other] = asked.each_ref().map(|(_, question)| question.clone());
        let (one, other) = tokio::join!(one.ask(self.client(ways[0].second)), other.ask(self.client(ways[1].second)));
        let seen = [one, other];
        let fork = before.and_then(|thread| self.book.last_response(thread)).map(|last| last.turn);
        let (mut branches, mut handle) = (Vec::new(), None);
        for ((number, question), seen) in asked.iter().zip(&seen) {
            assert_eq!(seen.text, Some(answer(*number, SIZE)), "{question:?}: {seen:?}");
            let told = seen.session["conversation_id"].as_str().expect("a conversation").to_owned();
            if seen.session["resolution"] == "branched" {
                assert!(matches!(question.address, Address::Previous(_)), "a slug is never a branch");
                branches.push((*number, question, seen, told));
            } else {
                assert!(handle.is_none_or(|known| known == told), "one conversation a slug");
                handle = Some(told);
            }
        }
        let handle = handle.expect("one of two goes on");
        let target = before.map_or(Target::Fresh(Some(slug)), Target::Continue);
        for (number, question, seen, told) in branches {
            let (thread, turn) = (before.expect("a source"), fork.expect("a last response"));
            let target = Target::Branch(thread, turn);
            let thread = self.book.enter(&target, &told);
            let now = said(&self.client(false), &told).await;
            let inherited = self.book.threads[thread].said().len();
            let expected = Expected::Answer(answer(number, SIZE));
            self.write_down(number, question, thread, &now[inherited..], &expected, seen);
            self.tells_the_story(thread, &now);
        }
        let thread = self.book.enter(&target, &handle);
        let now = said(&self.client(true), &handle).await;
        let known = self.book.threads[thread].said().len();
        for (place, (number, rows)) in in_turns(&now[known..]).into_iter().enumerate() {
            let at = asked.iter().position(|(asked, _)| *asked == number).expect("a turn that was asked for");
            let question = &asked[at].1;
            let is_chained = matches!(question.address, Address::Previous(_));
            assert!(!is_chained || place == 0, "what goes on comes right after what it goes on from");
            self.write_down(number, question, thread, rows, &Expected::Answer(answer(number, SIZE)), &seen[at]);
        }
        self.tells_the_story(thread, &now);
    }

    /// A numbered question that names the slug, or the last response if the turn is chained.
    fn numbered(&mut self, slug: &'static str, way: Way) -> (usize, Question) {
        let number = self.book.number();
        self.server.will(number, Answer::Text(SIZE));
        let last = self.book.of_slug(slug).and_then(|thread| self.book.last_response(thread));
        let is_chat = matches!(way.api, Api::Chat | Api::StreamedChat);
        let address = match last.filter(|_| way.chained && !is_chat) {
            Some(last) => Address::Previous(last.id.clone()),
            None => Address::Conversation(slug.to_owned()),
        };
        (number, Question { address, api: way.api, text: words(number, SIZE), stored: true })
    }

    /// Sends a turn while the conversation is deleted. If the turn is first, it is deleted with its conversation.
    /// Else the slug starts a new conversation.
    pub(super) async fn deleted_meanwhile(&mut self, slug: &'static str, way: Way, second: bool) {
        let api = match way.api {
            Api::Background | Api::Run => Api::Response,
            api => api,
        };
        let before = self.book.of_slug(slug);
        let (number, question) = self.numbered(slug, Way { api, ..way });
        let path = format!("/v1/conversations/{slug}");
        let (asking, deleting) = (self.client(way.second), self.client(second));
        let (seen, deleted) = tokio::join!(question.clone().ask(asking), deleting.delete(&path));
        let gone = (deleted.status == 200).then(|| deleted.json()["id"].as_str().unwrap().to_owned());
        match deleted.status {
            200 => {}
            404 => assert_eq!(before, None, "{}", deleted.text()),
            _ => assert_eq!(deleted.expect(409)["error"]["code"], "conversation_busy"),
        }
        let known = before.map(|thread| self.book.threads[thread].handle.clone());
        let is_gone = gone.is_some() && gone == known;
        if seen.status == Some(404) {
            let is_chained = matches!(question.address, Address::Previous(_));
            assert!(is_chained && is_gone, "{question:?} found nothing: {seen:?}");
        } else {
            self.came_before_or_after(slug, number, &question, &seen, known.as_deref(), gone.as_deref()).await;
        }
        for thread in self.book.threads.iter_mut().filter(|thread| Some(&thread.handle) == gone.as_ref()) {
            thread.is_alive = false;
        }
    }

    async fn came_before_or_after(
        &mut self,
        slug: &'static str,
        number: usize,
        question: &Question,
        seen: &Seen,
        known: Option<&str>,
        gone: Option<&str>,
    ) {
        assert_eq!(seen.text, Some(answer(number, SIZE)), "{question:?}: {seen:?}");
        let told = seen.session["conversation_id"].as_str().expect("a conversation");
        if gone == Some(told) {
            if known != gone {
                self.book.enter(&Target::Fresh(Some(slug)), told);
            }
            return;
        }
        let went_on = known == Some(told);
        assert!(went_on || known == gone, "a slug that was not deleted started afresh");
        let target = self.book.of_slug(slug).filter(|_| went_on).map_or(Target::Fresh(Some(slug)), Target::Continue);
        let thread = self.book.enter(&target, told);
        let now = said(&self.client(false), told).await;
        let before = self.book.threads[thread].said().len();
        self.write_down(number, question, thread, &now[before..], &Expected::Answer(answer(number, SIZE)), seen);
        self.tells_the_story(thread, &now);
    }
}
