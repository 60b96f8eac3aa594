package lockstep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/quire/quire/internal/plural"
)

// Fact is something that must be the same on all processes.
type Fact struct {
	Name, Value string
}

// Agree compares facts on all processes. It returns the same on each: nil, or a [DifferentError] for the first process
// whose facts differ from process 0's. what is the name of the facts in errors.
func (g *Group) Agree(what string, facts []Fact) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	all, err := g.Gather(text)
	if err != nil {
		return err
	}
	for id, other := range all {
		if bytes.Equal(other, all[0]) {
			continue
		}
		var first, theirs []Fact
		if err := errors.Join(json.Unmarshal(all[0], &first), json.Unmarshal(other, &theirs)); err != nil {
			return err
		}
		different := &DifferentError{Process: id, Name: g.name(id), When: what, Differences: differences(first, theirs)}
		g.fail(different)
		return different
	}
	return nil
}

// differences lists the facts of theirs that differ from first.
func differences(first, theirs []Fact) []string {
	var list []string
	have := map[string]string{}
	for _, f := range theirs {
		have[f.Name] = f.Value
	}
	for _, f := range first {
		value, ok := have[f.Name]
		delete(have, f.Name)
		switch {
		case !ok:
			list = append(list, fmt.Sprintf("%s is missing, but is %s in process 0", f.Name, f.Value))
		case value != f.Value:
			list = append(list, fmt.Sprintf("%s is %s, not %s", f.Name, value, f.Value))
		}
	}
	for _, f := range theirs {
		if _, extra := have[f.Name]; extra {
			list = append(list, fmt.Sprintf("%s is %s, but is missing in process 0", f.Name, f.Value))
		}
	}
	if len(list) == 0 {
		list = append(list, "the order of its facts")
	}
	return list
}

// Gather returns the data of all processes, by process, on each of them.
func (g *Group) Gather(data []byte) ([][]byte, error) { return g.exchange(agreement, 0, data) }

// Share returns process 0's data on all processes and ignores the data of the others. Process 0 does not wait for them.
// Share returns io.EOF when process 0 is done.
func (g *Group) Share(data []byte) ([]byte, error) {
	if g.Leads() {
		return data, g.tell(message{Kind: kindStream, Stream: agreement, Data: [][]byte{data}})
	}
	m, err := g.inbox.receive(0, agreement, false)
	if err != nil {
		return nil, err
	}
	return m.first(), nil
}

// Announce sends the others what to do next. Process 0 only.
func (g *Group) Announce(call ...[]byte) error {
	return g.tell(message{Kind: kindStream, Stream: calls, Data: call})
}

// Next waits for what process 0 announces. It returns io.EOF when process 0 is done.
func (g *Group) Next() ([][]byte, error) {
	m, err := g.inbox.receive(0, calls, false)
	return m.Data, err
}

// Confirm compares the results of a call, by its number, on all processes. Process 0 waits for the others. If one
// differs, all stop with a [DifferentError]: the others continue, and learn of it from Next.
func (g *Group) Confirm(number int, what string, facts []Fact) error {
	text, err := json.Marshal(facts)
	if err != nil {
		return err
	}
	m := message{Kind: kindStream, Stream: results, Tag: uint64(number), Data: [][]byte{text}}
	if !g.Leads() {
		return g.send(0, m)
	}
	for id, p := range g.peers {
		if p == nil {
			continue
		}
		reply, err := g.inbox.receive(id, results, true)
		different := &DifferentError{Process: id, Name: g.name(id), When: fmt.Sprintf("call %d (%s)", number, what)}
		var theirs []Fact
		switch {
		case errors.Is(err, errAstray):
			different.Differences = []string{"it is still in the middle of it"}
		case err != nil:
			return err
		case reply.Tag != m.Tag:
			different.Differences = []string{fmt.Sprintf("it has reached call %d", reply.Tag)}
		case bytes.Equal(reply.first(), text):
			continue
		default:
			if err := json.Unmarshal(reply.first(), &theirs); err != nil {
				return err
			}
			different.Differences = differences(facts, theirs)
		}
		g.fail(different)
		return different
	}
	return nil
}

// Exchange returns the data of all processes, by process, on each of them. Exchanges of one device, below
// [MaxExchanges], come in the same order on all. tag identifies an exchange: if it differs, all stop with a
// [DifferentError].
func (g *Group) Exchange(device int, tag uint64, data []byte) ([][]byte, error) {
	if device < 0 || device >= MaxExchanges {
		return nil, fmt.Errorf("lockstep: device %d cannot exchange numbers: device numbers are 0 to %d", device,
			MaxExchanges-1)
	}
	return g.exchange(exchanges+stream(device), tag, data)
}

func (g *Group) exchange(s stream, tag uint64, data []byte) ([][]byte, error) {
	m := message{Kind: kindStream, Stream: s, Tag: tag, Data: [][]byte{data}}
	if !g.Leads() {
		if err := g.send(0, m); err != nil {
			return nil, err
		}
		all, err := g.inbox.receive(0, s, false)
		if err == nil && len(all.Data) != g.NumProcesses() {
			err = fmt.Errorf("lockstep: process 0 sent the data of %s, not of %d",
				plural.Count(len(all.Data), "process"), g.NumProcesses())
		}
		return all.Data, err
	}
	all := make([][]byte, len(g.peers))
	all[0] = data
	for id, p := range g.peers {
		if p == nil {
			continue
		}
		reply, err := g.inbox.receive(id, s, true)
		if errors.Is(err, errAstray) {
			different := &DifferentError{Process: id, Name: g.name(id), When: "the call under way",
				Differences: []string{"it has reached the end of it"}}
			g.fail(different)
			return nil, different
		}
		if err != nil {
			return nil, err
		}
		if reply.Tag != tag || s != agreement && len(reply.first()) != len(data) {
			different := &DifferentError{Process: id, Name: g.name(id), When: "an exchange of numbers",
				Differences: []string{
					fmt.Sprintf("it is at number %d with %s, not at number %d with %d", reply.Tag,
						plural.Count(len(reply.first()), "byte"), tag, len(data))}}
			g.fail(different)
			return nil, different
		}
		all[id] = reply.first()
	}
	m.Data = all
	return all, g.tell(m)
}
