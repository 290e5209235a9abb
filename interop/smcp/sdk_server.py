# The server of the a2c-smcp SDK, which lets everybody in: PORT
import sys

import socketio, uvicorn
from a2c_smcp.server import DefaultAuthenticationProvider, SMCPNamespace


class Open(DefaultAuthenticationProvider):
    async def authenticate(self, *args, **kwargs):
        return True


server = socketio.AsyncServer(async_mode="asgi", cors_allowed_origins="*")
server.register_namespace(SMCPNamespace(Open(admin_secret="unused")))
app = socketio.ASGIApp(server)
try:
    from a2c_smcp.server.middleware import A2CProtocolVersionASGIMiddleware
    app = A2CProtocolVersionASGIMiddleware(app)
except ImportError:
    pass  # 0.1 knows no versions
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
