"""Stands between one coordinator and etcd: a port for each member. It fails as a network does and, for the tests of the
tests, lies as a broken coordinator would behave.

    etcd_proxy.py [--plant PLANT] --name NAME PORT=HOST:PORT…

A call of /proxy/Mode with one of these words changes what happens to calls from then on:
    pass      they are passed on
    cut       nothing passes: requests are lost, callers wait
    refuse    connections are refused
    deaf      requests are done, their answers are lost
    hold      requests are under way until the leader's key in etcd is another one or gone, also those whose caller has
              given them up; then they are done
    slow MS   each request and each answer takes up to so long

PLANT:
    no-term-compare  additions to the log do not compare the leader's key
    no-two-thirds    leases are told to be four times as long as they are
"""
import argparse
import asyncio
import random

import etcd_api
import grpc

LONGER = 4  # plant no-two-thirds
POLL_S = 0.005
FORWARD_WITHIN_S = 10
RANGE, TXN = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn"
GRANT, KEEP_ALIVE = "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseKeepAlive"


class Plant:
    def __init__(self, which, name):
        self.which = which
        self.leader, self.log = f"/{name}/leader".encode(), f"/{name}/log/".encode()

    def request(self, method, raw):
        if self.which != "no-term-compare" or method != TXN:
            return raw
        request = etcd_api.rpc().TxnRequest.FromString(raw)
        if not any(each.request_put.key.startswith(self.log) for each in request.success):
            return raw
        kept = [each for each in request.compare if each.key != self.leader]
        del request.compare[:]
        request.compare.extend(kept)
        return request.SerializeToString()

    def answer(self, method, raw):
        kinds = {GRANT: etcd_api.rpc().LeaseGrantResponse, KEEP_ALIVE: etcd_api.rpc().LeaseKeepAliveResponse}
        if self.which != "no-two-thirds" or method not in kinds:
            return raw
        answer = kinds[method].FromString(raw)
        answer.TTL *= LONGER
        return answer.SerializeToString()


class Link:
    """What all ports have in common: the mode."""

    def __init__(self, name, plant):
        self.plant = plant
        self.leader_request = etcd_api.rpc().RangeRequest(key=f"/{name}/leader".encode()).SerializeToString()
        self.mode, self.slow_s = "pass", 0.0
        self.changed = asyncio.Event()
        self.released = asyncio.Event()
        self.under_way = set()
        self.members = []

    def set(self, words):
        if words[0] == "hold":
            self.released = asyncio.Event()
            self.watcher = asyncio.ensure_future(self.release_when_term_is_over(self.released))
        self.mode = words[0]
        self.slow_s = int(words[1]) / 1000 if len(words) > 1 else 0.0
        self.changed.set()
        self.changed = asyncio.Event()

    async def lose(self, context):
        """The caller waits until the network is another one, or its own deadline is over."""
        await self.changed.wait()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was lost")

    async def carry(self, member, method, raw):
        """As a network does: whether or not the caller still waits."""
        if self.mode == "hold":
            await self.released.wait()
            # Another one may just be winning, reading the log to its end, or beginning to lead.
            await asyncio.sleep(random.choice([0, 0, random.uniform(0, 0.6)]))
        await asyncio.sleep(random.uniform(0, self.slow_s))
        raw = await member.call(method, self.plant.request(method, raw))
        await asyncio.sleep(random.uniform(0, self.slow_s))
        return self.plant.answer(method, raw)

    async def release_when_term_is_over(self, released):
        """Asks all members in turn, as one may be down. The first moments are those in which none leads yet."""
        first = await self.term(0)
        turn = 0
        while self.mode == "hold" and await self.term(turn) == first:
            turn += 1
            await asyncio.sleep(POLL_S)
        released.set()

    async def term(self, turn):
        """The create-revision of the leader's key; 0: it is gone."""
        while True:
            member = self.members[turn % len(self.members)]
            try:
                found = etcd_api.rpc().RangeResponse.FromString(await member.call(RANGE, self.leader_request))
                return found.kvs[0].create_revision if found.kvs else 0
            except grpc.RpcError:
                turn += 1

    async def serve(self, member, method, raw, context):
        if self.mode == "cut":
            await self.lose(context)
        if self.mode == "refuse":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "connection refused")
        task = asyncio.ensure_future(self.carry(member, method, raw))
        self.under_way.add(task)
        task.add_done_callback(self.forget)
        try:
            answer = await asyncio.shield(task)
        except grpc.RpcError as error:
            await context.abort(error.code(), error.details())
        if self.mode in ("cut", "deaf"):
            await self.lose(context)
        return answer

    def forget(self, task):
        self.under_way.discard(task)
        if not task.cancelled():
            task.exception()  # it may have no caller left


class Member:
    """Passes calls on to one member of etcd; also the handler of the port that stands for it."""

    def __init__(self, endpoint, link):
        self.channel = grpc.aio.insecure_channel(endpoint, options=etcd_api.CHANNEL)
        self.link = link

    async def call(self, method, raw):
        if method != KEEP_ALIVE:
            return await self.channel.unary_unary(method)(raw, timeout=FORWARD_WITHIN_S)
        stream = self.channel.stream_stream(method)(timeout=FORWARD_WITHIN_S)
        await stream.write(raw)
        answer = await stream.read()
        stream.cancel()
        return answer

    def service(self, details):
        method = details.method
        if method == "/proxy/Mode":
            return grpc.unary_unary_rpc_method_handler(self.set_mode)
        if method == KEEP_ALIVE:
            return grpc.stream_stream_rpc_method_handler(self.keep_alive)

        async def unary(raw, context):
            return await self.link.serve(self, method, raw, context)
        return grpc.unary_unary_rpc_method_handler(unary)

    async def set_mode(self, raw, context):
        self.link.set(raw.decode().split())
        return b"ok"

    async def keep_alive(self, requests, context):
        async for raw in requests:
            yield await self.link.serve(self, KEEP_ALIVE, raw, context)


class Handler(grpc.GenericRpcHandler):
    def __init__(self, member):
        self.member = member

    def service(self, details):
        return self.member.service(details)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--plant")
    parser.add_argument("members", nargs="+")
    options = parser.parse_args()
    link, servers = Link(options.name, Plant(options.plant, options.name)), []
    for text in options.members:
        port, endpoint = text.split("=")
        server = grpc.aio.server(options=[*etcd_api.CHANNEL, ("grpc.so_reuseport", 0)])
        link.members.append(Member(endpoint, link))
        server.add_generic_rpc_handlers([Handler(link.members[-1])])
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        servers.append(server)
    print("serving", flush=True)
    await asyncio.gather(*(server.wait_for_termination() for server in servers))


if __name__ == "__main__":
    asyncio.run(main())
