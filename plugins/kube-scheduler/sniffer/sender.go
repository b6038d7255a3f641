package sniffer

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"k8s.io/klog/v2"

	pb "fairlead.dev/kube-scheduler-sniffer/recorderpb"
)

const (
	method    = "/fairlead.recorder.v1.Recorder/Record"
	batchSize = 500
	// window is how many batches may be on their way before one is acknowledged.
	window   = 64
	farewell = time.Second
)

var (
	backoffs = [...]time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second}
	// gRPC's own would let minutes pass before it looks again.
	redial = grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 10 * time.Second},
		MinConnectTimeout: 5 * time.Second,
	}
	streaming = grpc.StreamDesc{StreamName: "Record", ClientStreams: true, ServerStreams: true}
)

// sender carries facts to the recorder: one stream, in order, each until it is acknowledged.
//
// Facts get their numbers when they are put into a batch. A batch that was not acknowledged is sent again after a
// reconnect, with the same numbers, so that the recorder can tell it once.
type sender struct {
	facts   chan *pb.Fact
	dropped atomic.Uint64
	conn    *grpc.ClientConn
	flush   time.Duration
	client  string
	logger  klog.Logger

	// Below: of the sending goroutine only.
	next    uint64
	pending []*pb.Fact
	unacked []*pb.Batch
	away    bool

	ending context.Context
	end    context.CancelFunc
	ended  chan struct{}
}

func newSender(ctx context.Context, args Args) (*sender, error) {
	conn, err := grpc.NewClient(
		args.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// The recorder is a neighbour: it is not reached by way of the cluster's proxy to the outside.
		grpc.WithNoProxy(),
		grpc.WithConnectParams(redial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 10 * time.Second}),
	)
	if err != nil {
		return nil, err
	}
	s := &sender{
		facts:  make(chan *pb.Fact, args.Buffer),
		conn:   conn,
		flush:  args.FlushInterval.Duration,
		client: rand.Text(),
		logger: klog.FromContext(ctx).WithValues("plugin", Name, "recorder", args.Address),
		next:   1,
		ended:  make(chan struct{}),
	}
	s.ending, s.end = context.WithCancel(ctx)
	go s.run()
	return s, nil
}

// put hands over a fact and never waits: without room the fact is counted and thrown away.
func (s *sender) put(fact *pb.Fact) {
	select {
	case s.facts <- fact:
	default:
		s.dropped.Add(1)
	}
}

// close sends what is left, for at most a second.
func (s *sender) close() {
	s.end()
	<-s.ended
}

func (s *sender) run() {
	defer close(s.ended)
	defer s.conn.Close()
	for failures := 0; ; failures++ {
		before := s.next
		err := s.session()
		if s.ending.Err() != nil {
			return
		}
		if s.next != before {
			failures = 0
		}
		if !s.away {
			s.logger.Info("The recorder is away; facts wait for it and scheduling goes on", "reason", err)
			s.away = true
		}
		select {
		case <-time.After(backoffs[min(failures, len(backoffs)-1)]):
		case <-s.ending.Done():
			return
		}
	}
}

// session is one stream from its beginning to its end. It returns when the stream breaks or all has been said.
func (s *sender) session() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A stream that does not come about, or hangs, must not outlive the scheduler.
	defer context.AfterFunc(s.ending, func() { time.AfterFunc(farewell, cancel) })()
	stream, err := s.conn.NewStream(ctx, &streaming, method)
	if err != nil {
		return err
	}
	for _, batch := range s.unacked {
		if err := stream.SendMsg(batch); err != nil {
			return err
		}
	}
	acks, broken := receive(stream)
	return s.pump(stream, acks, broken)
}

// receive reads acknowledgements, so that their reading never waits for a sending.
func receive(stream grpc.ClientStream) (<-chan uint64, <-chan error) {
	acks, broken := make(chan uint64, 2*window), make(chan error, 1)
	go func() {
		for {
			ack := &pb.Ack{}
			if err := stream.RecvMsg(ack); err != nil {
				broken <- err
				return
			}
			select {
			case acks <- ack.Last:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return acks, broken
}

func (s *sender) pump(stream grpc.ClientStream, acks <-chan uint64, broken <-chan error) error {
	ticker := time.NewTicker(s.flush)
	defer ticker.Stop()
	ending := s.ending.Done()
	for {
		facts := s.facts
		if len(s.unacked) >= window {
			facts = nil
		}
		var err error
		select {
		case fact := <-facts:
			if s.pending = append(s.pending, fact); len(s.pending) >= batchSize {
				err = s.send(stream)
			}
		case <-ticker.C:
			err = s.send(stream)
		case last := <-acks:
			s.acknowledged(last)
		case err = <-broken:
			for len(acks) > 0 {
				s.acknowledged(<-acks)
			}
		case <-ending:
			ending = nil
		}
		if err != nil {
			return err
		}
		if s.ending.Err() != nil && len(s.facts) == 0 {
			if err := s.send(stream); err != nil {
				return err
			}
			if len(s.unacked) == 0 {
				return stream.CloseSend()
			}
		}
	}
}

// send sends what waits as one batch, kept until it is acknowledged.
func (s *sender) send(stream grpc.ClientStream) error {
	if len(s.pending) == 0 || len(s.unacked) >= window {
		return nil
	}
	batch := &pb.Batch{Client: s.client, First: s.next, Facts: s.pending, Dropped: s.dropped.Load()}
	s.next += uint64(len(s.pending))
	s.pending = nil
	s.unacked = append(s.unacked, batch)
	return stream.SendMsg(batch)
}

func (s *sender) acknowledged(last uint64) {
	done := 0
	for done < len(s.unacked) && s.unacked[done].First+uint64(len(s.unacked[done].Facts))-1 <= last {
		done++
	}
	s.unacked = s.unacked[done:]
	if s.away {
		s.logger.Info("The recorder is back", "thrownAway", s.dropped.Load())
		s.away = false
	}
}
