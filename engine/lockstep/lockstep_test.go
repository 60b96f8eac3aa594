package lockstep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// freeAddress is one of this machine's that nobody listens at.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// joinAll makes a group of n processes, all in this one.
func joinAll(t testing.TB, n int, change func(id int, o *Options)) ([]*Group, []error) {
	t.Helper()
	address := freeAddress(t)
	groups, failures := make([]*Group, n), make([]error, n)
	var wg sync.WaitGroup
	for id := range n {
		wg.Go(func() {
			o := Options{CoordinatorAddress: address, NumProcesses: n, ProcessID: id, Version: "test",
				Host:                  fmt.Sprintf("host-%c", 'a'+id),
				InitializationTimeout: time.Minute, HeartbeatTimeout: time.Hour}
			if change != nil {
				change(id, &o)
			}
			groups[id], failures[id] = Join(t.Context(), o)
		})
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, g := range groups {
			if g != nil {
				g.Close()
			}
		}
	})
	return groups, failures
}

func join(t testing.TB, n int) []*Group {
	t.Helper()
	groups, failures := joinAll(t, n, nil)
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	return groups
}

// each runs f for all processes at once and returns what it answers.
func each(groups []*Group, f func(g *Group) error) []error {
	failures := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { failures[i] = f(g) })
	}
	wg.Wait()
	return failures
}

// Process 0 announces calls, the others do them; numbers go between devices of all; at the end all leave in peace.
func TestCalls(t *testing.T) {
	for _, n := range []int{1, 2, 4} {
		groups := join(t, n)
		failures := each(groups, func(g *Group) error {
			if err := g.Agree("the job", []Fact{{"model", "m"}, {"seed", "1"}}); err != nil {
				return err
			}
			smallest, err := g.Gather([]byte{byte(10 + g.ProcessID())})
			if err != nil || len(smallest) != n || smallest[n-1][0] != byte(10+n-1) {
				return fmt.Errorf("gathered %v, %w", smallest, err)
			}
			shared, err := g.Share([]byte(fmt.Sprint("from ", g.ProcessID())))
			if err != nil || string(shared) != "from 0" {
				return fmt.Errorf("shared %q, %w", shared, err)
			}
			for call := range 20 {
				if g.Leads() {
					if err := g.Announce([]byte(fmt.Sprint(call)), nil); err != nil {
						return err
					}
				} else if got, err := g.Next(); err != nil || string(got[0]) != fmt.Sprint(call) || len(got) != 2 {
					return fmt.Errorf("call %d is %q, %w", call, got, err)
				}
				failures := make(chan error)
				for device := range 3 {
					go func() {
						failures <- func() error {
							all, err := g.Exchange(device, uint64(call),
								bytes.Repeat([]byte{byte(g.ProcessID())}, 1<<(call%18)))
							if err != nil {
								return err
							}
							for id, data := range all {
								if len(data) != 1<<(call%18) || data[len(data)-1] != byte(id) {
									return fmt.Errorf("process %d gave %d bytes", id, len(data))
								}
							}
							return nil
						}()
					}()
				}
				for range 3 {
					if err := <-failures; err != nil {
						return err
					}
				}
				if err := g.Confirm(call, "run", []Fact{{"tokens", fmt.Sprint(call)}}); err != nil {
					return err
				}
			}
			if g.Leads() {
				g.End(7)
				return g.Err()
			}
			if _, err := g.Next(); err != io.EOF || g.Status() != 7 {
				return fmt.Errorf("the end is %w, %d", err, g.Status())
			}
			return g.Err()
		})
		if err := errors.Join(failures...); err != nil {
			t.Errorf("%d processes: %v", n, err)
		}
	}
}

// A process that differs ends all of them, with an error that names it and what differs.
func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(g *Group, odd bool) error
		want string
	}{
		"facts": {func(g *Group, odd bool) error {
			return g.Agree("the job", []Fact{{"model", "m"},
				{"input prompts.jsonl", map[bool]string{false: "100 rows", true: "99 rows"}[odd]}})
		}, "process 2 (host-c) differs from process 0 in the job: input prompts.jsonl is 99 rows, not 100 rows"},
		"facts that are not there": {func(g *Group, odd bool) error {
			if odd {
				return g.Agree("the job", []Fact{{"seed", "1"}})
			}
			return g.Agree("the job", []Fact{{"model", "m"}})
		},
			"process 2 (host-c) differs from process 0 in the job: model is missing, but is m in process 0; " +
				"seed is 1, but is missing in process 0"},
		"what a call came to": {func(g *Group, odd bool) error {
			if err := g.Confirm(12, "run", []Fact{{"steps", "4"}, {"tokens", fmt.Sprint(odd)}}); err != nil ||
				g.Leads() {
				return err
			}
			_, err := g.Next()
			return err
		}, "process 2 (host-c) differs from process 0 in call 12 (run): tokens is true, not false"},
		"how far it is": {func(g *Group, odd bool) error {
			call := 12
			if odd {
				call = 11
			}
			if err := g.Confirm(call, "run", nil); err != nil || g.Leads() {
				return err
			}
			_, err := g.Next()
			return err
		}, "process 2 (host-c) differs from process 0 in call 12 (run): it has reached call 11"},
		"who is through with a call": {func(g *Group, odd bool) error {
			if !odd {
				_, err := g.Exchange(0, 3, []byte("12345678"))
				return err
			}
			if err := g.Confirm(1, "run", nil); err != nil {
				return err
			}
			_, err := g.Next()
			return err
		}, "process 2 (host-c) differs from process 0 in the call under way: it has reached the end of it"},
		"who is not through with a call": {func(g *Group, odd bool) error {
			if odd {
				_, err := g.Exchange(0, 3, []byte("12345678"))
				return err
			}
			if err := g.Confirm(1, "run", nil); err != nil || g.Leads() {
				return err
			}
			_, err := g.Next()
			return err
		}, "process 2 (host-c) differs from process 0 in call 1 (run): it is still in the middle of it"},
		"what is exchanged": {func(g *Group, odd bool) error {
			tag := uint64(3)
			if odd {
				tag = 4
			}
			_, err := g.Exchange(0, tag, []byte("12345678"))
			return err
		},
			"process 2 (host-c) differs from process 0 in an exchange of numbers: it is at number 4 with 8 bytes, " +
				"not at number 3 with 8"},
	} {
		t.Run(name, func(t *testing.T) {
			groups := join(t, 3)
			for id, err := range each(groups, func(g *Group) error { return c.do(g, g.ProcessID() == 2) }) {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("process %d: %v", id, err)
				}
			}
			for _, g := range groups {
				if err := g.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("process %d: %v", g.ProcessID(), err)
				}
			}
		})
	}
}

// die is what the others see of a process that is killed.
func die(g *Group) {
	g.inbox.mu.Lock()
	g.inbox.closing = true // it says nothing any more
	g.inbox.mu.Unlock()
	for _, p := range g.peers {
		if p != nil {
			p.close()
		}
	}
}

// Whoever dies, fails, or is through too soon ends all the others, also those that wait for something.
func TestOneIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		gone int
		go_  func(g *Group)
		want string
	}{
		"a follower dies": {1, die, "process 1 (host-b) is lost: EOF"},
		"the leader dies": {0, die, "process 0 (host-a) is lost: "},
		"a follower fails": {1, func(g *Group) { g.Fail(errors.New("no memory")) },
			"process 1 (host-b): no memory"},
		"the leader fails": {0, func(g *Group) { g.Fail(errors.New("disk full")) },
			"process 0 (host-a): disk full"},
		"a follower leaves early": {2, func(g *Group) { g.Close() }, "process 2 (host-c) left before the end"},
		"the leader leaves early": {0, func(g *Group) { g.Close() }, "process 0 (host-a) left before the end"},
	} {
		t.Run(name, func(t *testing.T) {
			groups := join(t, 3)
			for id, err := range each(groups, func(g *Group) error {
				if g.ProcessID() == c.gone {
					c.go_(g)
					return nil
				}
				_, err := g.Exchange(0, 1, []byte("x"))
				return err
			}) {
				if id != c.gone && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("process %d: %v", id, err)
				}
			}
		})
	}
}

// A process whose connection stands and that says nothing is lost after the timeout; one that is busy is not.
func TestSilence(t *testing.T) {
	const timeout = time.Second
	address := freeAddress(t)
	go func() {
		conn, err := net.Dial("tcp", address)
		for ; err != nil && t.Context().Err() == nil; conn, err = net.Dial("tcp", address) {
			time.Sleep(10 * time.Millisecond)
		}
		p := newPeer(conn, time.Minute)
		_ = p.send(message{Kind: kindHello, Hello: &hello{Protocol: protocol, NumProcesses: 2, ProcessID: 1,
			Host: "mute"}})
		<-t.Context().Done()
		p.close()
	}()
	g, err := Join(t.Context(), Options{CoordinatorAddress: address, NumProcesses: 2, HeartbeatTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	_, err = g.Gather(nil)
	var lost *LostError
	if !errors.As(err, &lost) || lost.Process != 1 || lost.Silent != timeout ||
		!strings.Contains(err.Error(), "process 1 (mute) is lost: no message from it for 1s") {
		t.Error(err)
	}

	if testing.Short() {
		return // what follows takes long enough for a machine that stands still now and then; part of make test-slow
	}
	const long = 8 * time.Second
	groups, failures := joinAll(t, 2, func(_ int, o *Options) { o.HeartbeatTimeout = long })
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	select {
	case <-groups[0].Done():
		t.Error(groups[0].Err())
	case <-groups[1].Done():
		t.Error(groups[1].Err())
	case <-time.After(long + long/2):
	}
}

// A process that is wanted elsewhere asks for the end, and gets it.
func TestLeave(t *testing.T) {
	groups := join(t, 2)
	groups[1].Leave()
	select {
	case <-groups[0].Leaving():
	case <-time.After(time.Minute):
		t.Fatal("process 0 does not hear of it")
	}
	groups[0].End(4)
	if _, err := groups[1].Next(); err != io.EOF || groups[1].Status() != 4 {
		t.Error(err, groups[1].Status())
	}
}

func TestJoinErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(id int, o *Options)
		want   map[int]string
	}{
		"another version": {func(id int, o *Options) { o.Version = fmt.Sprint("v", id) },
			map[int]string{0: "process 1 (host-b) is refused: its version is v1, but process 0 has v0",
				1: "its version is v1"}},
		"another number": {func(id int, o *Options) { o.NumProcesses += id },
			map[int]string{0: "it is one of 3 processes, but process 0 is one of 2", 1: "it is one of 3"}},
		"nobody comes": {func(id int, o *Options) {
			if o.InitializationTimeout = time.Second; id == 1 {
				o.CoordinatorAddress = "127.0.0.1:1"
			}
		}, map[int]string{0: "of 2 processes these did not connect to", 1: "process 0 did not answer at 127.0.0.1:1"}},
		"no address": {func(_ int, o *Options) { o.CoordinatorAddress = "here" },
			map[int]string{0: "must be host:port", 1: "must be host:port"}},
		"not this machine's": {func(id int, o *Options) {
			if o.InitializationTimeout = time.Second; id == 0 {
				o.BindAddress = "192.0.2.1:80"
			}
		}, map[int]string{0: "process 0 cannot listen at 192.0.2.1:80"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, failures := joinAll(t, 2, c.change)
			for id, want := range c.want {
				if failures[id] == nil || !strings.Contains(failures[id].Error(), want) {
					t.Errorf("process %d: %v", id, failures[id])
				}
			}
		})
	}
	if _, err := Join(t.Context(), Options{NumProcesses: 2, ProcessID: 2}); err == nil {
		t.Error("process 2 of 2 joined")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Join(ctx, Options{NumProcesses: 2, CoordinatorAddress: freeAddress(t)}); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

// lines takes what is logged.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Strangers who call do not disturb those who meet, nor does a process that was started again.
func TestStrangers(t *testing.T) {
	address := freeAddress(t)
	came := make(lines, 10)
	options := func(id int) Options {
		return Options{CoordinatorAddress: address, NumProcesses: 3, ProcessID: id, InitializationTimeout: time.Minute,
			Log: slog.New(slog.NewTextHandler(came, nil))}
	}
	met := make(chan error)
	run := func(id int) {
		g, err := Join(t.Context(), options(id))
		if err == nil {
			_, err = g.Gather(nil)
			if g.Leads() {
				g.End(0)
			} else if _, end := g.Next(); err == nil && end != io.EOF {
				err = end
			}
		}
		met <- err
	}
	go run(0)
	call := func() net.Conn {
		for {
			if conn, err := net.Dial("tcp", address); err == nil {
				return conn
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "", strings.Repeat("\xff", 1<<20)} {
		conn := call()
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
	first := newPeer(call(), time.Minute) // the first process 1, which dies before all are there
	if err := first.send(message{Kind: kindHello, Hello: &hello{Protocol: protocol, NumProcesses: 3,
		ProcessID: 1}}); err != nil {
		t.Fatal(err)
	}
	for line := range came {
		if strings.Contains(line, "process=1") {
			break
		}
	}
	again := make(chan error)
	go func() {
		var m message
		again <- first.decoder.Decode(&m)
		first.close()
	}()
	go run(1)
	if err := <-again; err != nil { // a last word
		t.Error(err)
	}
	go run(2)
	for range 3 {
		if err := <-met; err != nil {
			t.Error(err)
		}
	}
}

// Whatever a stranger says, process 0 stands.
func FuzzGreet(f *testing.F) {
	var hi bytes.Buffer
	a, b := net.Pipe()
	go func() {
		_ = newPeer(a, time.Second).send(message{Kind: kindHello, Hello: &hello{Protocol: protocol, NumProcesses: 2,
			ProcessID: 1}})
		_ = a.Close()
	}()
	_, _ = io.Copy(&hi, b)
	f.Add(hi.Bytes())
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	g, err := Join(f.Context(), Options{NumProcesses: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := net.Pipe()
		go func() {
			_, _ = a.Write(data)
			_ = a.Close()
		}()
		p, who := g.greet(b)
		if p == nil {
			return
		}
		p.close()
		_ = g.refuse(who)
	})
}
