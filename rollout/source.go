package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seadtrain/dialogue"
)

// reply is what a user source answered.
type reply struct {
	p    *play
	text string
	err  error
}

// ask hands the agent's words to a user source: in place, or, with a deadline, beside the engine.
func (u *running) ask(ctx context.Context, p *play, says string) {
	if u.cfg.UserDeadline == 0 {
		text, err := p.session.Reply(ctx, says)
		u.answered(ctx, reply{p, text, err})
		return
	}
	u.awaited++
	go func(session dialogue.UserSession) { // the channel has room for every dialogue: a reply never waits
		limited, cancel := context.WithTimeout(ctx, time.Duration(u.cfg.UserDeadline*float64(time.Second)))
		defer cancel()
		text, err := session.Reply(limited, says)
		if err != nil && limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no reply within %v s: %w", u.cfg.UserDeadline, err)
		}
		u.replies <- reply{p, text, err}
	}(p.session)
}

// hear takes the replies that have come; with wait, at least one if any is due. It returns early when ctx ends.
func (u *running) hear(ctx context.Context, wait bool) {
	for u.awaited > 0 {
		var r reply
		if wait {
			select {
			case r = <-u.replies:
			case <-ctx.Done():
				return
			}
			wait = false
		} else {
			select {
			case r = <-u.replies:
			default:
				return
			}
		}
		u.awaited--
		u.answered(ctx, r)
	}
}

// answered takes a user source's message. One that is longer than a user's turn may be is cut there, as a model's is.
func (u *running) answered(ctx context.Context, r reply) {
	if r.err == nil {
		var ids []int32
		if ids, r.err = u.tok.Encode(r.text); r.err == nil {
			limit := u.sides[dialogue.User].role.MaxTokens
			cut := len(ids) > limit
			if cut {
				r.text = u.tok.Decode(ids[:limit], false)
			}
			u.said(ctx, r.p, u.scn.ReadMessage(dialogue.User, r.text, cut))
			return
		}
	}
	if ctx.Err() != nil && errors.Is(r.err, ctx.Err()) {
		return // the whole rollout is being stopped: it is not this user's fault
	}
	u.fail(r.p, fmt.Errorf("user: %w", r.err))
}
