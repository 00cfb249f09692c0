package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy is a TCP relay on 127.0.0.1 with a fixed address. It makes the failures
// that a network makes: it loses nothing that TCP would not lose, so what waits
// during a cut arrives after [Proxy.Heal], unless the connection has ended.
type Proxy struct {
	port     *Port
	upstream string

	mu       sync.Mutex
	changed  *sync.Cond
	listener net.Listener // nil while refusing
	conns    map[net.Conn]struct{}
	fault    fault
	closed   chan struct{}
}

// fault is what the network does at this moment.
type fault struct {
	holdRequests, holdReplies bool
	delay                     time.Duration
}

// dialWithin bounds the connection to the server behind the proxy.
const dialWithin = 5 * time.Second

// NewProxy relays to upstream, a host:port that need not listen yet.
func NewProxy(upstream string) (*Proxy, error) {
	port, err := NewPort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		port: port, upstream: upstream,
		conns: make(map[net.Conn]struct{}), closed: make(chan struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	if err := p.open(); err != nil {
		port.Release()
		return nil, err
	}
	return p, nil
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.port.Addr() }

// Cut silences both directions. Connections stay open and new ones are accepted,
// as far as a client can tell, but nothing arrives, not even the end of one.
func (p *Proxy) Cut() { p.set(fault{holdRequests: true, holdReplies: true}) }

// CutRequests silences the direction to the server only.
func (p *Proxy) CutRequests() { p.set(fault{holdRequests: true}) }

// CutReplies silences the direction to the client only: commands are executed,
// their outcome stays unknown.
func (p *Proxy) CutReplies() { p.set(fault{holdReplies: true}) }

// Delay adds at least d to everything that is sent, each way.
func (p *Proxy) Delay(d time.Duration) { p.set(fault{delay: d}) }

// Reset breaks every connection with a TCP reset. New ones are accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetAll()
}

// Refuse resets every connection and closes the port: connecting is refused.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	closeIf(p.listener)
	p.listener = nil
	p.resetAll()
}

// Heal ends every fault: what waited is delivered and the port is open again.
func (p *Proxy) Heal() {
	p.set(fault{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.isClosed() {
		return
	}
	var err error
	if !poll(dialWithin, func() bool { err = p.open(); return err == nil }) {
		panic(fmt.Sprintf("testenv: the port of a proxy cannot be opened again: %v", err))
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() {
		return nil
	}
	close(p.closed)
	closeIf(p.listener)
	p.resetAll()
	p.changed.Broadcast()
	p.port.Release()
	return nil
}

func (p *Proxy) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

func (p *Proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	p.changed.Broadcast()
}

func (p *Proxy) open() error {
	l, err := listen(p.port.Addr())
	if err != nil {
		return err
	}
	p.listener = l
	go p.serve(l)
	return nil
}

func (p *Proxy) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.relay(c)
	}
}

// relay joins a client's connection with one to the server.
func (p *Proxy) relay(client net.Conn) {
	if !p.add(client) {
		return
	}
	defer p.drop(client)
	p.wait(func(f fault) bool { return f.holdRequests })
	ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
	defer cancel()
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.upstream)
	if err != nil {
		reset(client)
		return
	}
	if !p.add(server) {
		return
	}
	defer p.drop(server)
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(server, client, func(f fault) bool { return f.holdRequests }) })
	pumps.Go(func() { p.pump(client, server, func(f fault) bool { return f.holdReplies }) })
	pumps.Wait()
}

// pump copies one direction until it ends, and passes the end on.
func (p *Proxy) pump(dst, src net.Conn, held func(fault) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if !errors.Is(err, net.ErrClosed) {
			p.wait(held)
		}
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				reset(src)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			closeWrite(dst)
			return
		}
		if err != nil {
			reset(dst)
			return
		}
	}
}

// wait returns when the delay has passed and the direction is not held.
func (p *Proxy) wait(held func(fault) bool) {
	p.mu.Lock()
	delay := p.fault.delay
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.closed:
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for held(p.fault) && !p.isClosed() {
		p.changed.Wait()
	}
}

// add remembers a connection for resets, or closes it when the proxy is closed.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed() {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) resetAll() {
	for c := range p.conns {
		reset(c)
	}
}

// reset closes a connection so that the other side gets a TCP reset.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}
